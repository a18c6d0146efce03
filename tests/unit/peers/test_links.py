"""Links on real sockets of the loopback."""

from unit.peers.fakes import beat, hello_of, nodes, replica


async def test_every_node_is_linked_with_every_other_one_and_messages_arrive_in_order() -> None:
    async with nodes(hello_of("a"), hello_of("b"), hello_of("c")) as (a, b, c):
        for node, others in ((a, "bc"), (b, "ac"), (c, "ab")):
            await node.until(lambda node=node: len(node.linked) == 2)
            assert sorted(node.linked) == [replica(name) for name in others]
        for number in range(100):
            assert a.links.send(beat("a", "b", number))
        await b.until(lambda: len(b.heard) == 100)
        assert b.heard == [beat("a", "b", number) for number in range(100)]
        assert c.heard == []
