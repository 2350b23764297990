"""Names and forms of the files that write_networks.py wrote."""
import os


def of(folder):
    """Names of the networks, in the order in which they were written."""
    files = [f for f in os.listdir(folder) if f.endswith(".npz") and not f.endswith(".out.npz")]
    files.sort(key=lambda f: os.path.getmtime(os.path.join(folder, f)))
    return [name for name in (f[:-len(".npz")] for f in files) if forms(folder, name)]


def forms(folder, name):
    """Forms of one network: OPSET.FORM."""
    start, end = name + ".", ".onnx"
    found = [f[len(start):-len(end)] for f in os.listdir(folder) if f.startswith(start) and f.endswith(end)]
    return sorted(f for f in found if f.count(".") == 1)
