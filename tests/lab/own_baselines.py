"""Baselines and jobs of one's own, as a person would add them; processes started by the tests import them from here."""

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


class Parrot(Baseline):
    """Says what it was told last, whatever it is asked."""

    name, title = "parrot", "Parrot"
    linear, incremental = True, True
    defaults = {"voice": "loud"}  # noqa: RUF012

    def fit(self, data):
        self.learn_one(data.train[-1:], data.truth[-1])

    def learn_one(self, x, truth):
        self.told = truth

    def predict(self, rows, k=1):
        return np.full(rows.shape[0], self.told)


class Twin(Parrot):
    """Cannot be told from a parrot."""


class Mute(Baseline):
    """Has nothing to learn and nothing to say."""

    name, title = "mute", "Mute"

    def fit(self, data):
        pass

    def predict(self, rows, k=1):
        return np.zeros(rows.shape[0], np.int64)


class Hog(Mute):
    """Never comes to an end."""

    name, title = "hog", "Hog"

    def fit(self, data):
        while True:
            pass


class Raiser(Mute):
    """Cannot learn."""

    name, title = "raiser", "Raiser"

    def fit(self, data):
        raise RuntimeError("the dog ate my weights")


class Crasher(Mute):
    """Takes its process with it."""

    name, title = "crasher", "Crasher"

    def fit(self, data):
        import os
        import signal

        os.kill(os.getpid(), signal.SIGSEGV)


class Needy(Mute):
    """Needs what nobody has."""

    name, title = "needy", "Needy"
    needs = ("numpy", "a_module_that_nobody_has")


def count_rows(kind, source, seed, options):
    """A job of one's own."""
    save_partial(half="done")
    return {"rows_of": source.load().rows, "name": kind.name, "seed_was": seed, "options_were": options}


def give_up_halfway(kind, source, seed, options):
    """A job that notes something, then fails."""
    save_partial(first=1)
    save_partial(first=1, second=2)
    raise ValueError("no third")


def double(spec):
    """A function for `call`."""
    print("whatever a baseline prints")
    return {"doubled": 2 * spec["number"]}


def linger(spec):
    """A function for `call` that says when it runs, and takes so long that somebody has to end it."""
    with open(spec["pipe"], "w") as pipe:
        print("here", file=pipe, flush=True)
        time.sleep(60)
        print("to the end", file=pipe, flush=True)
    return {}
