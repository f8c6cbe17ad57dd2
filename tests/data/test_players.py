"""Groups are players: lists, masks and names of inputs."""

from typing import Any

import numpy as np
import pytest
import torch

from shearshap import Explainer, InputError, explain, patches

ROWS = np.random.default_rng(0).normal(size=(5, 4))
ZEROS = np.zeros(4)

WEIGHTS = np.array([1.0, 10, 100, 1000])

LISTS: list[Any] = [
    [[0, 2], [1], [3]],
    {"a": [0, 2], "b": [1], "c": [3]},
    np.array([0, 1, 0, 2]),
    [0, 1, 0, 2],
    # the numbers of a mask may start anywhere and have gaps
    np.array([1, 2, 1, 3]),
    np.array([10, 20, 10, 30], dtype=np.uint8),
    np.array([1.0, 2.0, 1.0, 3.0]),
    torch.tensor([0, 5, 0, 9]),
]


@pytest.mark.parametrize("groups", LISTS)
def test_groups_are_players(groups: Any) -> None:
    answer = explain(
        lambda x: x @ WEIGHTS, np.ones((2, 4)), reference=ZEROS, budget=8, groups=groups
    )
    np.testing.assert_allclose(answer.values, [[101, 10, 1000]] * 2)


def test_a_mask_of_truth_values_is_of_two_players() -> None:
    mask = np.array([True, False, True, False])
    answer = explain(
        lambda x: x @ [1.0, 10, 100, 1000], np.ones((1, 4)), reference=0, budget=4, groups=mask
    )
    np.testing.assert_allclose(answer.values, [[1010, 101]])


SEGMENTS = np.repeat([[1, 1, 7, 7, 3]], 4, axis=0)


@pytest.mark.parametrize("channels", ["first", "last"])
@pytest.mark.parametrize(
    "mask", [SEGMENTS, SEGMENTS[None], SEGMENTS[None, None], SEGMENTS[..., None]]
)
def test_a_mask_without_channels_is_that_of_every_channel(channels: str, mask: Any) -> None:
    images = np.random.default_rng(0).normal(size=(2, 3, 4, 5))
    expected = [images[0][:, number == SEGMENTS].sum() for number in (1, 3, 7)]
    has_first = mask.ndim == 2 or mask.shape[0] == 1
    if channels == "last":
        images = np.moveaxis(images, 1, -1)
    fits = mask.ndim == 2 or has_first == (channels == "first")
    explainer = Explainer(lambda x: x.sum(axis=(1, 2, 3)), 0, groups=mask)
    if not fits:
        with pytest.raises(
            InputError, match="groups: expected lists of columns or an integer mask"
        ):
            explainer(images, budget=8)
        return
    np.testing.assert_allclose(explainer(images, budget=8).values[0], expected)


def test_a_mask_that_fits_first_and_last_channels_is_refused() -> None:
    with pytest.raises(InputError, match=r"does not show which axis of \(3, 3, 3\) holds the"):
        explain(
            lambda x: x.sum(axis=(1, 2, 3)),
            np.ones((2, 3, 3, 3)),
            reference=0,
            budget=8,
            groups=np.zeros((3, 3), dtype=int),
        )


def test_masks_of_several_inputs_without_channels() -> None:
    rows = (np.ones((2, 3, 2, 2)), np.ones((2, 2)))
    masks = (np.array([[4, 4], [9, 9]]), np.array([9, 2]))
    answer = explain(
        lambda image, row: image.sum(axis=(1, 2, 3)) + 10 * row.sum(axis=1),
        rows,
        reference=0,
        budget=8,
        groups=masks,
    )
    np.testing.assert_allclose(answer.values, [[10, 6, 16]] * 2)


@pytest.mark.parametrize(
    ("groups", "names", "expected"),
    [
        ([["a", "c"], ["b"], ["d"]], list("abcd"), ["a + c", "b", "d"]),
        ([["d", "c", "b"], ["a"]], list("abcd"), ["b + 2 more", "a"]),
        ({"z": ["a", "c"]}, list("abcd"), ["z", "b", "d"]),
        ([[0, 2], [1], [3]], list("abcd"), ["a + c", "b", "d"]),
        ([[0, 2], [1], [3]], list("xyz"), ["x", "y", "z"]),
        ({"p": [0, 2], "q": [1], "r": [3]}, list("xyz"), ["x", "y", "z"]),
        ([["b"], ["a"], ["d"], ["c"]], list("abcd"), ["b", "a", "d", "c"]),
        ([[1], [0], [3], [2]], list("wxyz"), ["w", "x", "y", "z"]),
        (None, range(4), ["0", "1", "2", "3"]),
        ([[0, 2], [1], [3]], range(4), ["0 + 2", "1", "3"]),
    ],
)
def test_names_of_an_arrays_columns_or_of_players(groups: Any, names: Any, expected: Any) -> None:
    weights = np.array([1.0, 10, 100, 1000])
    explainer = Explainer(lambda x: x @ weights, 0, groups=groups, feature_names=names)
    answer = explainer(np.ones((1, 4)), budget=16)
    assert answer.feature_names == expected
    worth = dict(zip("abcd", weights, strict=True))
    for name, value in zip(answer.feature_names, answer.values[0], strict=True):
        if set(name.split(" + ")) <= set("abcd"):
            assert value == pytest.approx(sum(worth[column] for column in name.split(" + ")))


def test_names_of_another_number_are_refused() -> None:
    explainer = Explainer(lambda x: x[:, 0], 0, groups=[[0, 1], [2], [3]], feature_names=list("ab"))
    with pytest.raises(
        InputError,
        match="feature_names: expected 3, one for each feature, or 4, one for each input column, got 2",
    ):
        explainer(ROWS)


def test_patches_are_numbered_line_by_line() -> None:
    assert patches(3, 4, size=2).tolist() == [[0, 0, 1, 1], [0, 0, 1, 1], [2, 2, 3, 3]]
    assert patches(2, 5, size=(1, 3)).tolist() == [[0, 0, 0, 1, 1], [2, 2, 2, 3, 3]]
    assert patches(1, 2, size=9).tolist() == [[0, 0]]


@pytest.mark.parametrize("size", [0, -1, 2.5, (2, 2, 2)])
def test_patches_of_no_size(size: Any) -> None:
    with pytest.raises(
        InputError, match=r"positive integers, such as patches\(224, 224, size=16\)"
    ):
        patches(8, 8, size=size)
