"""The public contract, over every kind of index that the library offers."""

import pytest

from memorytree.checks import contract, kinds

BOUNDSCHECKED = ("dense principal", "named terms")


def cases():
    for kind in kinds():
        for name, check in contract():
            marks = [pytest.mark.boundscheck] if kind.name in BOUNDSCHECKED else []
            if name in kind.deviations:
                marks.append(pytest.mark.xfail(reason=kind.deviations[name], raises=AssertionError, strict=True))
            yield pytest.param(kind, check, id=f"{kind.name}-{name.removeprefix('check_')}", marks=marks)


@pytest.mark.parametrize(("kind", "check"), list(cases()))
def test_contract(kind, check):
    check(kind)
