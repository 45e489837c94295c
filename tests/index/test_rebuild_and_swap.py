"""Long work is done on a copy of the index, which then replaces it."""

import numpy as np
import pytest

from tests.trees import grown, matrix, state


@pytest.mark.parametrize("work", ["refit", "sweep", "reroute"])
def test_work_is_done_on_a_copy_of_the_index(work):
    tree = grown(routing="paper", n=200)
    index, before = tree.index, tree.index.state_dict()
    tree.reroute(50) if work == "reroute" else getattr(tree, work)()
    assert tree.index is not index
    for name, array in index.state_dict().items():
        np.testing.assert_array_equal(array, before[name])


def test_an_error_during_the_work_changes_nothing(monkeypatch):
    tree = grown(n=50)
    before = state(tree)
    with monkeypatch.context() as patch:
        patch.setattr(type(tree.index), "refit", lambda self, passes: self.remove(0) or 1 / 0)
        with pytest.raises(ZeroDivisionError):
            tree.refit()
    assert state(tree) == before
    tree.insert(matrix(1)[0], "next")
    tree.check()


def test_readers_use_the_original_during_the_work(monkeypatch):
    tree, answers = grown(n=50), []

    def refit(self, passes):
        self.remove(0)
        answers.append(tree.query(matrix(1)[0], 50, beam=50).ids.tolist())

    with monkeypatch.context() as patch:
        patch.setattr(type(tree.index), "refit", refit)
        tree.refit()
    assert sorted(answers[0]) == list(range(50))
    assert len(tree.index) == 49
