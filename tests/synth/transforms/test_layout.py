"""Layouts and encoded rows as such."""

import numpy as np
import pytest

from synth.transforms.layout import Encoded, Layout, Span


@pytest.mark.parametrize(("size", "dtype"), [(1, np.int16), (2**15, np.int16), (2**15 + 1, np.int32)])
def test_codes_take_the_smallest_dtype_that_holds_them(size: int, dtype: type) -> None:
    layout = Layout((Span("a", 2, whole=True), Span("b", size, whole=True)))
    rows = Encoded.zeros(3, layout)
    assert rows.codes.dtype == layout.dtype == dtype
    assert np.array([size - 1]).astype(layout.dtype)[0] == size - 1


def test_a_layout_may_be_empty() -> None:
    layout = Layout(())
    assert (layout.width, layout.n_codes, layout.offsets.tolist()) == (0, 0, [])


def test_a_span_has_codes() -> None:
    with pytest.raises(ValueError, match="at least one code"):
        Span("a", 0, whole=True)


@pytest.mark.parametrize(("codes", "scalars"), [((3, 2), (4, 1)), ((3,), (3, 1)), ((3, 2), (3,))])
def test_codes_and_scalars_are_of_the_same_rows(codes: tuple[int, ...], scalars: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="must be rows"):
        Encoded(np.zeros(codes, np.int16), np.zeros(scalars, np.float32))
