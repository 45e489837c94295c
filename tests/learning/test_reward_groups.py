"""Groups of memories that were rewarded together."""

from memorytree.links import Links


def test_groups_that_were_read_again_go_on_as_they_were():
    links = Links()
    links.join([1, 2])
    links.join([3, 4])
    links.forget(3)
    links.forget(4)
    again = Links(links.pairs().tolist())
    for each in (links, again):
        each.join([5, 6])
    assert links.pairs().tolist() == again.pairs().tolist()


def test_groups_that_were_joined_and_read_again_go_on_as_they_were():
    links = Links()
    links.join([1, 2])
    links.join([3, 4])
    links.join([1, 3])
    again = Links(links.pairs().tolist())
    for each in (links, again):
        each.join([5, 6])
    assert links.pairs().tolist() == again.pairs().tolist()
