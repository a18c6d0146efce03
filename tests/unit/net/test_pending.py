"""Open requests end once."""

from logherd.net.pending import OPAQUE_MAX, Pending


def test_an_answer_is_taken_once() -> None:
    pending: Pending[str] = Pending()
    answers: list[str] = []
    opaque = pending.add(5.0, answers.append)
    callback = pending.take(opaque)
    assert callback is not None
    callback("yes")
    assert answers == ["yes"]
    assert pending.take(opaque) is None
    assert pending.expire(10.0) == []


def test_deadlines_hold_from_their_moment_on() -> None:
    pending: Pending[str] = Pending()
    early, late = pending.add(5.0, print), pending.add(6.0, print)
    assert pending.expire(4.9) == []
    assert [opaque for opaque, _ in pending.expire(5.0)] == [early]
    assert [opaque for opaque, _ in pending.expire(7.0)] == [late]
    assert len(pending) == 0


def test_drain_ends_everything() -> None:
    pending: Pending[str] = Pending()
    opaques = [pending.add(5.0, print) for _ in range(3)]
    assert [opaque for opaque, _ in pending.drain()] == opaques
    assert pending.drain() == []


def test_opaques_wrap_and_skip_open_requests() -> None:
    pending: Pending[str] = Pending(first_opaque=OPAQUE_MAX)
    assert pending.add(1.0, print) == OPAQUE_MAX
    assert pending.add(1.0, print) == 0
    again: Pending[str] = Pending(first_opaque=OPAQUE_MAX)
    again.add(1.0, print)
    again._next_opaque = OPAQUE_MAX
    assert again.reserve() == 0
