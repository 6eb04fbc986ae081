"""Reads a model of ONNX or a .pt2 of torch.export, and writes it as a network of Assay's ops.

`assay import` starts it: python -m assay_import. Only onnx_*.py import onnx; a .pt2 needs numpy only.

A file is read twice into a graph (graph.py), with two batch sizes, by onnx_reader.py with onnx_ops.py or by
pt2_reader.py with pt2_ops.py. The rules of lifts/ replace parts by whole ops. network.py writes both
graphs and proves that they differ only in the batch.
"""
