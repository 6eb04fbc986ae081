"""Sizes above which a file is refused before its contents are read or computed."""

from __future__ import annotations

MIB = 1 << 20

FILE_BYTES = 2 << 30  # protobuf reads no larger message
EXTERNAL_BYTES = 64 << 30  # of the weights in other files, together
INSIDE_BYTES = 1 << 30  # external weights that are put into original.onnx
MESSAGES = 400_000  # parts of an ONNX file: nodes, attributes, tensors, names
DEPTH = 16  # of graphs within graphs
WHOLE_NUMBER_BYTES = 32 * MIB  # of numbers in an ONNX file that take more memory than file
JSON_BYTES = 32 * MIB  # of the JSON files in a .pt2
DIRECTORY_BYTES = 16 * MIB  # of the list of files in a .pt2
ENTRIES = 65_536  # files in a .pt2

RANK = 8  # dimensions of a tensor
ELEMENTS = 1 << 32  # of a value
FOLDED_ELEMENTS = 1 << 22  # of a constant that is computed
FOLDED_TOTAL = 1 << 26  # of all of them
FOLDED_OPERATIONS = 1 << 30  # multiplications of constants
NODES = 100_000  # that are read, with those of the branches
STEPS = 4_096  # parts that a node is split into

NAME_BYTES = 200
DESCRIPTION_BYTES = 400
NETWORK_BYTES = 64 * MIB

VALUE = 1e15  # the largest size of a weight or constant: its square must stay finite
USABLE = f"values must be finite and at most {VALUE:g}: for a mask, -1e9 does"
BOUND = 1e30  # of a clamp: beyond it there is none
