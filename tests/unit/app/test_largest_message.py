"""What is stored must also get away from where it is: to clients, to the leader, and to followers."""

from annotated_types import Le

from logherd.app.option_values import _RECORD_OVERHEAD
from logherd.model.names import Epoch, Position
from logherd.peers.codec import envelope_parts
from logherd.peers.frames import FRAME_HEAD_SIZE, FrameReader, make_frame
from logherd.peers.options import LinkOptions
from logherd.replication.epochs import ORIGIN, Run
from logherd.replication.log import Span
from logherd.replication.messages import Append, ClusterId, Envelope, ReplicaId
from logherd.settings.models import StoreSettings
from logherd.wire.codec import encode_head
from logherd.wire.frame import Flag, Frame
from logherd.wire.limits import DEFAULT_LIMITS


def largest_record() -> int:
    """Bytes of the record of the largest body that settings allow."""
    [limit] = [each for each in StoreSettings.model_fields["message_bytes_max"].metadata if isinstance(each, Le)]
    assert isinstance(limit.le, int)
    return limit.le + _RECORD_OVERHEAD


def test_a_follower_takes_the_largest_record_that_settings_allow_in_one_message() -> None:
    size = largest_record()
    span = Span(ORIGIN, Position(size), (Run(Epoch(1), Position(0)),), bytes(size))
    names = ReplicaId(f"{'a' * 127}.{1:016x}"), ReplicaId(f"{'b' * 127}.{2:016x}")
    head, data = envelope_parts(Envelope(ClusterId("c" * 255), *names, Epoch(1), Append(1, span, Position(0))))
    frame = make_frame(head, data)
    assert [len(each) for each in FrameReader(LinkOptions().frame_bytes_max).feed(frame)] == [
        len(frame) - FRAME_HEAD_SIZE
    ]


def test_a_client_and_another_broker_get_the_largest_record_that_settings_allow_in_one_frame() -> None:
    header = {"nextBeginOffset": "1" * (DEFAULT_LIMITS.header_bytes_max // 2)}
    assert encode_head(Frame(0, 1, flag=Flag.RESPONSE, ext=header), largest_record())
