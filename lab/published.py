"""Figures of the paper (Contextual Memory Trees, ICML 2019): all that it gives as numbers.

Its curves have no numbers, so they are omitted. Its data sets differ from ours: `STANDS_FOR` maps each of ours to the one
that it substitutes. Times are those of the authors' machines.
"""

from __future__ import annotations

from typing import NamedTuple

FEW_SHOT_SOURCE = "table of few-shot details, appendix"
MULTI_LABEL_SOURCE = "table of multi-label tasks, section 4"
RETRIEVAL_SOURCE = "table of image retrieval, appendix"
SPEEDUP_SOURCE = "table of speed-ups, section 4"
DESIDERATA_SOURCE = "table of desiderata, section 1"

# Our data set -> the paper's set that it substitutes.
STANDS_FOR = {
    "wikipara-1": "WikiPara 1-shot",
    "wikipara-2": "WikiPara 2-shot",
    "wikipara-3": "WikiPara 3-shot",
    "omniglot-1": "ImageNet 1-shot",
    "omniglot-2": "ImageNet 2-shot",
    "omniglot-3": "ImageNet 3-shot",
    "omniglot-5": "ImageNet 5-shot",
    "omniglot-15": "ALOI",
    "aloi": "ALOI",
    "bibtex": "RCV1-1K",
    "rcv1-2k": "RCV1-1K",
    "yso": "AmazonCat-13K",
    "amazoncat-13k": "AmazonCat-13K",
    "wiki10-31k": "Wiki10-31K",
    "flickr8k": "Flickr8k",
    "pascal": "Pascal",
    "coco": "MS COCO",
}

# Our baseline -> the paper's name for the system.
SYSTEMS = {
    "cmt-u": "CMT(u)",
    "cmt": "CMT",
    "vw-lomtree": "LOMTree",
    "vw-recall-tree": "Recall Tree",
    "vw-oaa": "OAA",
    "vw-multilabel-oaa": "OAA",
    "exact-1nn-counts": "NN",
    "kd-tree": "KD-Tree",
}


class Score(NamedTuple):
    """Test error in percent, and ms a query."""

    error: float
    ms: float


_FEW = ("CMT(u)", "CMT", "LOMTree", "Recall Tree", "OAA")
_FEW_ERRORS = {
    "ALOI": (75.8, 26.3, 66.7, 28.8, 21.7),
    "WikiPara 1-shot": (97.3, 96.7, 98.2, 97.1, 98.2),
    "WikiPara 2-shot": (96.3, 96.0, 96.7, 94.0, 95.6),
    "WikiPara 3-shot": (96.1, 95.7, 96.1, 92.0, 92.8),
    "ImageNet 1-shot": (98.8, 98.7, 99.8, 99.7, 98.0),
    "ImageNet 2-shot": (98.7, 98.3, 99.6, 99.3, 97.0),
    "ImageNet 3-shot": (98.6, 98.1, 99.4, 98.9, 96.2),
    "ImageNet 5-shot": (98.4, 97.9, 99.2, 98.6, 95.3),
}
_FEW_MS = {
    "ALOI": (0.27, 0.15, 0.01, 0.02, 0.05),
    "WikiPara 1-shot": (0.3, 0.3, 0.1, 0.1, 0.9),
    "WikiPara 2-shot": (0.4, 0.4, 0.1, 0.1, 1.1),
    "WikiPara 3-shot": (0.5, 0.3, 0.1, 0.1, 1.1),
    "ImageNet 1-shot": (9.6, 8.2, 1.0, 3.3, 112.4),
    "ImageNet 2-shot": (11.7, 8.6, 1.2, 3.3, 112.0),
    "ImageNet 3-shot": (9.8, 8.5, 4.6, 3.3, 109.0),
    "ImageNet 5-shot": (12.5, 11.6, 1.3, 4.0, 110.4),
}
FEW_SHOT = {
    (name, system): Score(error, ms)
    for name in _FEW_ERRORS
    for system, error, ms in zip(_FEW, _FEW_ERRORS[name], _FEW_MS[name], strict=True)
}


class Labelled(NamedTuple):
    """Hamming loss, ms a row, and hours of training."""

    loss: float
    ms: float
    hours: float


MULTI_LABEL = {
    ("RCV1-1K", "CMT"): Labelled(2.5, 1.4, 1.9),
    ("RCV1-1K", "OAA"): Labelled(2.6, 0.5, 1.3),
    ("AmazonCat-13K", "CMT"): Labelled(3.2, 1.7, 5.3),
    ("AmazonCat-13K", "OAA"): Labelled(3.0, 8.7, 15.5),
    ("Wiki10-31K", "CMT"): Labelled(18.3, 25.3, 1.3),
    ("Wiki10-31K", "OAA"): Labelled(20.3, 327.1, 7.2),
}


class Reward(NamedTuple):
    """Mean reward, its standard deviation over splits (if given), and ms a query."""

    reward: float
    sd: float | None
    ms: float


RETRIEVAL = {
    ("Pascal", "CMT(u)"): Reward(0.680, 0.008, 0.13),
    ("Pascal", "CMT"): Reward(0.694, 0.010, 0.58),
    ("Pascal", "NN"): Reward(0.683, 0.013, 0.74),
    ("Pascal", "KD-Tree"): Reward(0.675, 0.013, 0.002),
    ("Flickr8k", "CMT(u)"): Reward(0.733, 0.004, 0.23),
    ("Flickr8k", "CMT"): Reward(0.740, 0.002, 1.0),
    ("Flickr8k", "NN"): Reward(0.736, 0.003, 6.0),
    ("Flickr8k", "KD-Tree"): Reward(0.733, 0.002, 0.002),
    ("MS COCO", "CMT(u)"): Reward(0.581, None, 0.590),
    ("MS COCO", "CMT"): Reward(0.584, None, 1.90),
    ("MS COCO", "NN"): Reward(0.585, None, 12.4),
    ("MS COCO", "KD-Tree"): Reward(0.574, None, 35.4),
}

# Speed-up of CMT over a linear scan and over a KD-tree on all features; None where the KD-tree could not be built.
SPEEDUP: dict[tuple[str, str], tuple[float, float | None]] = {
    ("Pascal", "CMT(u)"): (5.7, 9400),
    ("Pascal", "CMT"): (1.3, 2100),
    ("Flickr8k", "CMT(u)"): (26.0, 33000),
    ("Flickr8k", "CMT"): (6.0, 7700),
    ("MS COCO", "CMT(u)"): (21.0, None),
    ("MS COCO", "CMT"): (6.5, None),
}

DESIDERATA = ("low time", "small space", "self-consistent", "incremental", "learning")
TICKS = {
    "inverted index": (False, True, True, False, False),
    "supervised learning": (True, True, False, True, True),
    "nearest neighbour": (False, True, True, True, False),
    "approximate NN": (True, True, True, False, False),
    "learned NN": (False, True, True, False, True),
    "hashing": (False, True, True, False, True),
    "differentiable memory": (False, True, True, True, True),
    "CMT": (True, True, True, True, True),
}
