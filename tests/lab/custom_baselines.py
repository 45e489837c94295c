"""Baselines and jobs as a user would write them; child processes of the tests import them from here."""

import numpy as np

from lab.baselines import Baseline
from lab.process import save_partial


class NearestMean(Baseline):
    """The example in the documentation of `Baseline`: the class whose mean is nearest."""

    name, title = "nearest-mean", "Nearest class mean"
    kinds, keys = frozenset({"classes"}), frozenset({"dense"})

    def fit(self, data):
        self.means = np.stack([data.train[data.truth == c].mean(axis=0) for c in range(data.truth.max() + 1)])

    def predict(self, rows, k=1):
        return (self.means @ rows.T - (self.means**2).sum(axis=1)[:, None] / 2).argmax(axis=0)


class LastClass(Baseline):
    """Predicts the class of the last training row."""

    name, title = "last-class", "Last class"
    linear, incremental = True, True
    defaults = {"setting": "one"}  # noqa: RUF012  (a class attribute, as in a user's file)

    def fit(self, data):
        self.learn_one(data.train[-1:], data.truth[-1])

    def learn_one(self, x, truth):
        self.last = truth

    def predict(self, rows, k=1):
        return np.full(rows.shape[0], self.last)


class SameTitle(LastClass):
    """Has the title of another baseline."""


class Zero(Baseline):
    """Predicts class 0."""

    name, title = "zero", "Zero"

    def fit(self, data):
        pass

    def predict(self, rows, k=1):
        return np.zeros(rows.shape[0], np.int64)


class MissingPackage(Zero):
    """Needs a module that is not installed."""

    name, title = "missing-package", "Missing package"
    needs = ("numpy", "a_module_that_does_not_exist")


def count_rows(kind, source, options):
    """A job of a user."""
    save_partial(half="done")
    return {"rows_of": source.load().rows, "name": kind.name, "seed_was": source.seed, "options_were": options}


def double(spec):
    """A function, not a baseline."""
    return {"doubled": 2 * spec["number"]}
