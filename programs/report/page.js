"use strict";
const runs = JSON.parse(document.getElementById("runs").textContent);
const page = document.getElementById("page");
const colour = i => `var(--run${i % 8})`;

// Elements. Text is only ever set as text.
function make(parent, name, attributes = {}, text) {
  const svg = ["svg", "path", "line", "text", "rect", "g", "title"].includes(name);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", name)
                      : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}
function card(parent, title, note) {
  const result = make(parent, "section", {class: "card"});
  make(result, "h2", {}, title);
  if (note) make(result, "p", {class: "note"}, note);
  return result;
}

// Numbers.
const known = x => x !== null && x !== undefined && Number.isFinite(x);
function number(x, digits = 4) {
  if (!known(x)) return "–";
  if (x === 0) return "0";
  const size = Math.abs(x);
  return size >= 1e5 || size < 1e-3 ? x.toExponential(2) : String(+x.toPrecision(digits));
}
function bytes(x) {
  if (x >= 1 << 20) return `${(x / (1 << 20)).toFixed(1)} MiB`;
  return x >= 1 << 10 ? `${(x / (1 << 10)).toFixed(1)} KiB` : `${x} B`;
}
const time = us => us >= 1e4 ? `${(us / 1e3).toFixed(1)} ms` : `${number(us, 3)} µs`;
// Round numbers from low to high, about `count`; with `least` 1, whole ones.
function ticks(low, high, count, least = 0) {
  const raw = Math.max((high - low) / count, least), power = 10 ** Math.floor(Math.log10(raw));
  const step = power * ([1, 2, 5, 10].find(x => x * power >= raw) || 10);
  const first = Math.ceil(low / step - 1e-6), last = Math.floor(high / step + 1e-6);
  return Array.from({length: Math.max(0, Math.min(50, last - first + 1))}, (_, k) => (first + k) * step);
}
function range(values) {
  let low = Infinity, high = -Infinity;
  for (const x of values) { low = Math.min(low, x); high = Math.max(high, x); }
  return [low, high];
}

// Draws again whenever the width changes, so that letters keep their size.
function chart(parent, height, draw) {
  const box = make(parent, "div", {class: "chart"});
  let width = 0;
  const redraw = () => {
    const now = Math.floor(box.clientWidth);
    if (now === width || now < 40) return;
    width = now;
    box.replaceChildren();
    draw(make(box, "svg", {viewBox: `0 0 ${width} ${height}`, height, role: "img"}), width, height, box);
  };
  new ResizeObserver(() => requestAnimationFrame(redraw)).observe(box);
}

function axes(svg, width, height, x, y, options) {
  const left = options.left || 52, right = 10, top = 8, bottom = options.xName ? 38 : 22;
  const sx = v => left + (v - x[0]) / (x[1] - x[0] || 1) * (width - left - right);
  const scale = options.log ? Math.log10 : v => v;
  const y0 = scale(y[0]), y1 = scale(y[1]);
  const sy = v => height - bottom - (scale(v) - y0) / (y1 - y0 || 1) * (height - bottom - top);
  const format = options.format || number;
  const unit = options.unit || 1;
  const lines = options.log ? logTicks(y[0], y[1])
    : ticks(y[0] / unit, y[1] / unit, height > 150 ? 4 : 2).map(v => v * unit);
  for (const v of lines) {
    make(svg, "line", {x1: left, x2: width - right, y1: sy(v), y2: sy(v), stroke: "var(--line)"});
    make(svg, "text", {x: left - 6, y: sy(v) + 4, "text-anchor": "end"}, format(v));
  }
  const marks = options.marks ||
    ticks(x[0], x[1], Math.max(4, Math.min(7, Math.floor(width / 80))), 1);
  for (const v of marks) {
    make(svg, "text", {x: sx(v), y: height - bottom + 15, "text-anchor": "middle"}, v.toLocaleString("en"));
  }
  if (options.xName) {
    make(svg, "text", {x: left + (width - left - right) / 2, y: height - 4, "text-anchor": "middle"}, options.xName);
  }
  return {sx, sy, left, right, top, bottom};
}
function logTicks(low, high) {
  const result = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); ++power) {
    for (const factor of high / low > 30 ? [1] : [1, 2, 5]) {
      const v = factor * 10 ** power;
      if (v >= low * 0.999 && v <= high * 1.001) result.push(v);
    }
  }
  return result;
}
function extent(values) {
  let [low, high] = range(values);
  const size = Math.max(Math.abs(low), Math.abs(high));
  if (high - low <= 1e-9 * size) { low -= size * 0.05 || 0.5; high += size * 0.05 || 0.5; }
  const room = (high - low) * 0.05;
  return [low - room, high + room];
}
function path(points, sx, sy) {
  let result = "", pen = "M";
  for (const [x, y] of points) {
    if (!known(y)) { pen = "M"; continue; }
    result += `${pen}${sx(x).toFixed(1)} ${sy(y).toFixed(1)}`;
    pen = "L";
  }
  return result;
}

// Lines of several series: {name, colour, points: [[x, y], ...]}.
function lines(parent, series, options) {
  const shown = series.filter(each => each.points.some(p => known(p[1])));
  if (!shown.length) { make(parent, "p", {class: "note"}, "Nothing yet."); return; }
  if (shown.length > 1) {
    const keys = make(parent, "div", {class: "keys"});
    for (const each of shown) {
      const key = make(keys, "span");
      make(key, "span", {class: "dot", style: `background:${each.colour}`});
      key.append(each.name);
    }
  }
  chart(parent, options.height || 250, (svg, width, height, box) => {
    const all = shown.flatMap(each => (each.raw || each.points).filter(p => known(p[1])));
    const x = range(all.map(p => p[0]));
    const values = [...all.map(p => p[1]), ...shown.flatMap(each => (each.band || []).flatMap(p => [p[1], p[2]]))];
    const [low, high] = range(values);
    const log = options.log && low > 0 && high > 4 * low;
    const y = log ? [low / 1.08, high * 1.08] : extent(values);
    const a = axes(svg, width, height, x[0] === x[1] ? [x[0] - 1, x[1] + 1] : x, y, {...options, log});
    for (const each of shown) {
      if (each.band) {
        const up = each.band.map(p => [p[0], p[2]]), down = each.band.map(p => [p[0], p[1]]).reverse();
        make(svg, "path", {d: path([...up, ...down], a.sx, a.sy), fill: "var(--fill)"});
      }
      if (each.raw) {
        make(svg, "path", {d: path(each.raw, a.sx, a.sy), fill: "none", stroke: each.colour, opacity: 0.22});
      }
      make(svg, "path", {d: path(each.points, a.sx, a.sy), fill: "none", stroke: each.colour,
                         "stroke-width": 2, "stroke-linejoin": "round"});
      const one = each.points.filter(p => known(p[1]));
      if (one.length === 1) {
        make(svg, "rect", {x: a.sx(one[0][0]) - 3, y: a.sy(one[0][1]) - 3, width: 6, height: 6, rx: 3, fill: each.colour});
      }
    }
    hover(svg, box, width, height, a, shown, options);
  });
}
// Each point as the mean of those around it, about one in thirty of all.
function smooth(points) {
  const reach = Math.floor(points.length / 60);
  return points.map(([x], i) => {
    const near = points.slice(Math.max(0, i - reach), i + reach + 1).map(p => p[1]).filter(known);
    return [x, near.length ? near.reduce((a, b) => a + b, 0) / near.length : null];
  });
}
function hover(svg, box, width, height, a, series, options) {
  const cross = make(svg, "line", {y1: a.top, y2: height - a.bottom, stroke: "var(--soft)", visibility: "hidden"});
  let tip = null;
  const leave = () => { cross.setAttribute("visibility", "hidden"); if (tip) tip.remove(); tip = null; };
  svg.addEventListener("pointerleave", leave);
  svg.addEventListener("pointermove", event => {
    const at = event.clientX - svg.getBoundingClientRect().left;
    let near = null;
    for (const each of series) for (const p of each.points) {
      if (known(p[1]) && (near === null || Math.abs(a.sx(p[0]) - at) < Math.abs(a.sx(near) - at))) near = p[0];
    }
    leave();
    if (near === null) return;
    cross.setAttribute("x1", a.sx(near)); cross.setAttribute("x2", a.sx(near));
    cross.setAttribute("visibility", "visible");
    tip = make(box, "div", {class: "tip"});
    make(tip, "div", {}, `${options.xName || "at"} ${near.toLocaleString("en")}`);
    for (const each of series) {
      const p = each.points.find(q => q[0] === near && known(q[1]));
      if (!p) continue;
      const row = make(tip, "div");
      make(row, "span", {class: "dot", style: `background:${each.colour}`});
      row.append(`${each.name} ${(options.format || number)(p[1])}`);
    }
    const side = a.sx(near) > width / 2;
    tip.style.top = "8px";
    tip.style[side ? "right" : "left"] = `${side ? width - a.sx(near) + 8 : a.sx(near) + 8}px`;
  });
}

// All runs.
const best = run => {
  const scores = run.epochs.map(each => each.score).filter(known);
  return scores.length ? range(scores)[run.higher_is_better ? 1 : 0] : null;
};
function table(parent, head, rows) {
  const element = make(make(parent, "div", {class: "scroll"}), "table");
  const top = make(make(element, "thead"), "tr");
  for (const text of head) make(top, "th", {scope: "col"}, text);
  const body = make(element, "tbody");
  for (const row of rows) {
    const line = make(body, "tr");
    for (const cell of row) {
      const place = make(line, "td");
      if (typeof cell === "function") cell(place); else place.textContent = cell;
    }
  }
}
function overview() {
  table(card(page, "Runs"), ["run", "state", "epochs", "last loss", "best score", "parameters", "step", "memory per step"],
    runs.map((run, i) => [
      place => { make(place, "span", {class: "dot", style: `background:${colour(i)}`}); place.append(run.name); },
      run.state === "Running" ? `at step ${run.step} of ${run.steps}` : run.state.toLowerCase(),
      String(run.epochs.length),
      number(run.epochs.length ? run.epochs[run.epochs.length - 1].loss : null),
      known(best(run)) ? `${number(best(run))}${run.unit}` : "–",
      run.parameters.toLocaleString("en"),
      run.mean_step_us ? time(run.mean_step_us) : "–",
      bytes(run.memory.arena_bytes)]));
  const grid = make(page, "div", {class: "grid"});
  lines(card(grid, "Training loss", "Faint: as measured. Bold: means over nearby steps. Logarithmic if losses differ greatly."),
    runs.map((run, i) => {
      const raw = run.loss.means.map((mean, k) => [(k + 1) * run.loss.stride, mean]);
      return {name: run.name, colour: colour(i), raw, points: smooth(raw)};
    }), {xName: "step", log: true});
  const metrics = [...new Set(runs.filter(run => run.metric).map(run => run.metric + run.unit))];
  for (const metric of metrics) {
    const {metric: name, unit} = runs.find(run => run.metric + run.unit === metric);
    lines(card(grid, name[0].toUpperCase() + name.slice(1), `After each epoch${unit ? ", in" + unit : ""}.`),
      runs.map((run, i) => ({name: run.name, colour: colour(i),
        points: run.metric + run.unit === metric ? run.epochs.map(each => [each.epoch, each.score]) : []})),
      {xName: "epoch"});
  }
}

// One run.
function scales(parent, run) {
  const place = card(parent, "Scales of quantizers", "By epoch: the median over channels; the shaded area spans the smallest to the largest.");
  const some = run.scales.filter(each => each.middle.some(known));
  if (!some.length) { make(place, "p", {class: "note"}, "The run has no quantizers, or no epoch has ended."); return; }
  const small = make(place, "div", {class: "small"});
  for (const each of some) {
    const cell = make(small, "div");
    make(cell, "div", {class: "label"}, each.label);
    const at = k => run.epochs[k].epoch;
    lines(cell, [{name: "scale", colour: "var(--forward)",
      points: each.middle.map((v, k) => [at(k), v]),
      band: each.middle.map((_, k) => [at(k), each.smallest[k], each.largest[k]]).filter(p => known(p[1]))}],
      {height: 120, xName: "epoch", left: 60, marks: [at(0), at(run.epochs.length - 1)]});
  }
}
const bits = q => Math.ceil(Math.log2(q.q_max - q.q_min + 1));
function histogram(parent, q) {
  chart(parent, 92, (svg, width, height) => {
    const total = q.histogram.reduce((a, b) => a + b, 0) || 1, most = Math.max(1, ...q.histogram);
    const each = width / q.histogram.length, floor = height - 18;
    q.histogram.forEach((count, i) => {
      const tall = count ? Math.max(1, count / most * (floor - 4)) : 0;
      const bar = make(svg, "rect", {x: (i * each).toFixed(2), y: floor - tall, height: tall,
        width: Math.max(0.8, each - (each > 4 ? 1.5 : 0)).toFixed(2), fill: "var(--forward)"});
      make(bar, "title", {}, `${(100 * count / total).toFixed(2)} %`);
    });
    make(svg, "line", {x1: 0, x2: width, y1: floor, y2: floor, stroke: "var(--soft)"});
    make(svg, "text", {x: 0, y: height - 4}, String(q.q_min));
    make(svg, "text", {x: width, y: height - 4, "text-anchor": "end"}, String(q.q_max));
    make(svg, "text", {x: width / 2, y: height - 4, "text-anchor": "middle"}, "code");
  });
}
function quantizers(parent, run) {
  const place = card(parent, "Codes", "Effect of each quantizer on training samples after the last epoch: signal-to-quantization-noise ratio, share of clamped elements, and frequency of each code.");
  if (!run.quantizers.length) { make(place, "p", {class: "note"}, "The run has no quantizers, or no epoch has ended."); return; }
  const most = Math.max(1, ...run.quantizers.map(q => q.sqnr_db || 0));
  const small = make(place, "div", {class: "small"});
  for (const q of run.quantizers) {
    const cell = make(small, "div");
    make(cell, "div", {class: "label"}, q.label);
    const dead = q.dead_channels ? `, ${q.dead_channels} of ${q.channels} channels with one code` : "";
    make(cell, "div", {class: "note", style: "margin:0"},
      `${bits(q)} bits, ${known(q.sqnr_db) ? q.sqnr_db.toFixed(1) + " dB" : "no noise"}, ` +
      `${(100 * q.saturated).toFixed(2)} % clamped${dead}`);
    const bar = make(cell, "div", {style: "background:var(--line);border-radius:3px;height:6px;margin:4px 0 6px"});
    make(bar, "div", {style: `background:var(--forward);border-radius:3px;height:6px;width:${Math.max(0, Math.min(100, 100 * (known(q.sqnr_db) ? q.sqnr_db : most) / most))}%`});
    histogram(cell, q);
  }
}
function memory(parent, run) {
  const live = run.memory.live, half = live.length / 2;
  const place = card(parent, "Memory over a step", live.length
    ? `Bytes of the arena in use, forward and then backward. At most ${bytes(range(live)[1])}, at ${run.memory.peak_node}; ` +
      `the arena has ${bytes(run.memory.arena_bytes)}. In addition, ${bytes(run.memory.parameter_bytes)} of parameters, gradients and states.`
    : "");
  if (!live.length) return;
  chart(place, 220, (svg, width, height) => {
    const y = [0, Math.max(1, range(live)[1]) * 1.05];
    const a = axes(svg, width, height, [0, live.length], y, {format: bytes, unit: y[1] > 2 << 20 ? 1 << 20 : 1 << 10, left: 74, marks: []});
    const area = (from, to, fill) => {
      let d = `M${a.sx(from)} ${a.sy(0)}`;
      for (let t = from; t < to; ++t) d += `L${a.sx(t).toFixed(1)} ${a.sy(live[t]).toFixed(1)}L${a.sx(t + 1).toFixed(1)} ${a.sy(live[t]).toFixed(1)}`;
      make(svg, "path", {d: d + `L${a.sx(to)} ${a.sy(0)}Z`, fill, opacity: 0.75});
    };
    area(0, half, "var(--forward)");
    area(half, live.length, "var(--backward)");
    make(svg, "text", {x: a.sx(half / 2), y: height - 5, "text-anchor": "middle"}, "forward");
    make(svg, "text", {x: a.sx(half * 1.5), y: height - 5, "text-anchor": "middle"}, "backward");
  });
}
function times(parent, run) {
  const rows = run.times.filter(each => each.forward_us + each.backward_us > 0)
    .sort((a, b) => b.forward_us + b.backward_us - a.forward_us - a.backward_us);
  const place = card(parent, "Time by op", "Per step, without the optimizer and the reading of data. Products of codes count towards the last node that is computed with them.");
  if (!rows.length) { make(place, "p", {class: "note"}, "No epoch has ended."); return; }
  const keys = make(place, "div", {class: "keys"});
  for (const name of ["forward", "backward"]) {
    const key = make(keys, "span");
    make(key, "span", {class: "dot", style: `background:var(--${name})`});
    key.append(name);
  }
  chart(place, rows.length * 30 + 6, (svg, width) => {
    const left = Math.min(190, width * 0.42), room = width - left - 76;
    const most = rows[0].forward_us + rows[0].backward_us;
    rows.forEach((row, i) => {
      const y = i * 30 + 6, f = row.forward_us / most * room, b = row.backward_us / most * room;
      make(svg, "text", {x: left - 8, y: y + 15, "text-anchor": "end"}, row.op);
      make(svg, "rect", {x: left, y, width: f, height: 20, fill: "var(--forward)"});
      make(svg, "rect", {x: left + f + (b > 2 ? 1 : 0), y, width: Math.max(0, b - (b > 2 ? 1 : 0)), height: 20, fill: "var(--backward)"});
      make(svg, "text", {x: left + f + b + 6, y: y + 15}, time(row.forward_us + row.backward_us));
    });
  });
}
function detail(parent, run) {
  parent.replaceChildren();
  scales(parent, run);
  quantizers(parent, run);
  const grid = make(parent, "div", {class: "grid"});
  memory(grid, run);
  times(grid, run);
}

page.replaceChildren();
make(page, "h1", {}, runs.length === 1 ? `Training run ${runs[0].name}` : "Training runs");
overview();
const choose = make(page, "div", {class: "choose"});
make(choose, "h1", {}, "Details of");
const detailed = document.createElement("div");
if (runs.length > 1) {
  const list = make(choose, "select", {"aria-label": "run"});
  runs.forEach((run, i) => make(list, "option", {value: i}, run.name));
  list.addEventListener("change", () => detail(detailed, runs[+list.value]));
} else {
  choose.append(runs[0].name);
}
page.append(detailed);
detail(detailed, runs[0]);
