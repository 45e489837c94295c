"""The value model: its regression, the weights of its components, and a change of directions."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memorytree.config import ValueModel
from memorytree.engine.jit import kernel
from memorytree.engine.value_model import COMPONENTS, FIT, RewardMoments, fit_component_weights, solve_ridge
from memorytree.learning.value_model import LearnedValueModel


@kernel
def solve(rows, n, left, ridge, steps, change):
    solve_ridge(rows, n, left, ridge, steps, change)


@given(st.integers(0, 2**16), st.integers(2, 12), st.integers(1, 5))
def test_change_of_an_aim_solves_ridge_regression(seed, n, width):
    rng = np.random.default_rng(seed)
    rows, left = rng.normal(size=(n, width)).astype(np.float32), rng.normal(size=n)
    change = np.empty(width, np.float32)
    solve(rows, n, left, 0.5, width + 2, change)
    exact = np.linalg.solve(rows.T @ rows + 0.5 * np.eye(width), rows.T @ left)
    np.testing.assert_allclose(change, exact, rtol=2e-3, atol=2e-4)


@given(st.integers(0, 2**16))
def test_component_weights_are_least_squares_of_significant_components(seed):
    rng = np.random.default_rng(seed)
    components = rng.normal(size=(2000, COMPONENTS)) @ rng.normal(size=(COMPONENTS, COMPONENTS))
    rewards = components @ np.array([0.6, 0.1, 1.6])
    moments = RewardMoments(
        products=components.T @ components,
        with_rewards=components.T @ rewards,
        squares=np.full(COMPONENTS, 1e-9),
        seen_keys=np.zeros(1, np.uint64),
        lessons=np.zeros(1, np.int64),
    )
    if np.all(moments.with_rewards > 0) and np.linalg.cond(moments.products) < 20:
        exact = np.linalg.solve(moments.products, moments.with_rewards)
        np.testing.assert_allclose(fit_component_weights(moments, COMPONENTS), exact, rtol=0.05, atol=0.02)
    none_significant = moments._replace(squares=moments.with_rewards**2)
    assert not fit_component_weights(none_significant, COMPONENTS).any()
    only_fit = moments._replace(squares=np.where(np.arange(COMPONENTS) == FIT, 0, np.inf))
    assert fit_component_weights(only_fit, COMPONENTS)[1:].max() == 0


def test_new_directions_keep_the_learned_aims(rng):
    model = LearnedValueModel(ValueModel(), 6)
    basis = np.linalg.qr(rng.normal(size=(6, 6)))[0].astype(np.float32)
    model.set_directions(basis, 60)
    model.aims.weights[:] = rng.normal(size=model.aims.weights.shape)
    model.moments.lessons[0] = 1
    before = model.aims.weights @ model.basis.T
    model.set_directions(np.linalg.qr(rng.normal(size=(6, 6)))[0].astype(np.float32), 60)
    np.testing.assert_allclose(model.aims.weights @ model.basis.T, before, atol=1e-5)
