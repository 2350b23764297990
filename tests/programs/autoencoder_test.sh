#!/usr/bin/env bash
# train_autoencoder: three models in one run, two of them also as integers:
# autoencoder_test.sh BUILD_FOLDER
source "$(dirname "$0")/common.sh"

tiny=(--samples 320 --test-samples 50 --epochs 2 --qat-epochs 2)
"$autoencoder" "${tiny[@]}" --threads 1 --save "$work/a.json" --save-float "$work/af.json" --save-calibrated "$work/ac.json" --save-program "$work/ap.json" --requantization OnnxQdq --json "$work/ar.json" >"$work/auto.txt"
check "the autoencoder's table has three models of as many epochs" test "$(grep -cE '^(float|calibrated W8A8|trained W8A8) +4 0\.' "$work/auto.txt")" = 3
check "the autoencoder deploys both" test "$(grep -cE '^(calibrated|trained), deployed +4 0\.' "$work/auto.txt")" = 2
check "training, reference and backend agree" test "$(grep -c ': 100 samples, 0 mismatches' "$work/auto.txt")" = 2
"$tool" convert "$work/a.json" -o "$work/ap2.json" --requantization OnnxQdq >/dev/null
check "the autoencoder's program is what convert writes" cmp "$work/ap.json" "$work/ap2.json"
check "the trained reconstruction is quantized" grep -q 'reconstruction.quantized .*FakeQuantizeLSQ, codes 0..255, Affine' <("$tool" inspect "$work/a.json")
check "the autoencoder saves all models" test -s "$work/af.json" -a -s "$work/ac.json" -a -s "$work/ar.json"
check "integer programs have weights of 8 bits at most" exits 2 '--weight-bits: expected 2 to 8, got 9' "$autoencoder" --weight-bits 9
check "batch above the samples" exits 2 'batch must be in 1..32, got 64' "$autoencoder" --samples 32

finish
