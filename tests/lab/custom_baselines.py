"""Baselines and jobs as a user would write them; child processes of the tests import them from here."""

import time

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


class Endless(Zero):
    """Its fit never returns."""

    name, title = "endless", "Endless"

    def fit(self, data):
        while True:
            pass


class Raising(Zero):
    """Its fit raises."""

    name, title = "raising", "Raising"

    def fit(self, data):
        raise RuntimeError("no weights")


class Crashing(Zero):
    """Its fit crashes the process."""

    name, title = "crashing", "Crashing"

    def fit(self, data):
        import os
        import signal

        os.kill(os.getpid(), signal.SIGSEGV)


class MissingPackage(Zero):
    """Needs a module that is not installed."""

    name, title = "missing-package", "Missing package"
    needs = ("numpy", "a_module_that_does_not_exist")


def count_rows(kind, source, options):
    """A job of a user."""
    save_partial(half="done")
    return {"rows_of": source.load().rows, "name": kind.name, "seed_was": source.seed, "options_were": options}


def fail_halfway(kind, source, options):
    """A job that saves partial results, then fails."""
    save_partial(first=1)
    save_partial(first=1, second=2)
    raise ValueError("no third")


def double(spec):
    """A function for `call` that also prints."""
    print("printed by a child")
    return {"doubled": 2 * spec["number"]}


def wait_for_the_end(spec):
    """A function for `call` that reports its start in a pipe and then takes a minute."""
    with open(spec["pipe"], "w") as pipe:
        print("started", file=pipe, flush=True)
        time.sleep(60)
        print("finished", file=pipe, flush=True)
    return {}
