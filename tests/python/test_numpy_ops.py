"""The ops of the plain numpy backend, forwards and backwards, against the contract of each case."""

from __future__ import annotations

import numpy as np
import pytest
from ops import OPS
from test_framework_ops import ALL, Case, cotangent, expected_of, operand_order

CASES = [case for case in ALL if case.op in OPS]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_op_and_its_gradients_are_what_the_contract_says(case: Case) -> None:
    operands = {name: operand.astype("f8") for name, operand in case.operands.items()} | case.whole
    order = operand_order(case)
    given = [operands[name] for name in order]
    if case.op in ("convolution", "linear") and "b" not in order:
        given.append(None)
    y, backward = OPS[case.op](*given, **case.attributes)
    expected = expected_of(ALL.index(case))
    np.testing.assert_allclose(y, expected["result/y"], 1e-9, 1e-12)
    gradients = dict(zip(order, backward(cotangent(np.shape(y)).astype("f8")), strict=False))
    for name in case.operands:
        np.testing.assert_allclose(gradients[name], expected[f"gradient/{name}"], 1e-6, 1e-8, err_msg=name)


def test_every_op_is_met() -> None:
    made_of_python = {"from_array", "from_list"}
    assert {case.op for case in CASES} == OPS.keys() - made_of_python
