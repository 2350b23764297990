#!/usr/bin/env python3
"""Writes tests/data/arrays: files of arrays by NumPy and safetensors, as other programs write them.

write_arrays.py FOLDER, where numpy, torch and safetensors are installed.
"""
import sys

import numpy as np
import safetensors.numpy
import safetensors.torch
import torch

DTYPES = ["float32", "float64", "float16", "int64", "int32", "int16", "uint16", "int8", "uint8"]


def arrays():
    """0 to 5 as [2, 3] of each dtype, and shapes that are special."""
    made = {dtype: np.arange(6).reshape(2, 3).astype(dtype) for dtype in DTYPES}
    made["bool"] = np.array([[True, False, True]])
    made["scalar"] = np.array(2.5, np.float32)
    made["empty"] = np.zeros((0, 4), np.float32)
    made["layer/0.weight é"] = np.array([1, -1], np.float32)
    return made


def main():
    folder = sys.argv[1]
    np.savez(f"{folder}/stored.npz", **arrays(), columns=np.arange(6, dtype=np.float32).reshape(3, 2).T)
    np.savez_compressed(f"{folder}/deflated.npz", **arrays(), long=np.zeros(1000, ">i4"))
    np.savez(f"{folder}/none.npz")
    without_bool = {name: array for name, array in arrays().items() if name != "bool"}
    safetensors.numpy.save_file(without_bool, f"{folder}/numpy.safetensors")
    tensors = {"bfloat16": torch.arange(6).reshape(2, 3).to(torch.bfloat16), "bias": torch.ones(3),
               "bool": torch.tensor([True, False, True])}
    safetensors.torch.save_file(tensors, f"{folder}/torch.safetensors", metadata={"format": "pt"})


main()
