"""Requests of operators and tools: elections, cleaning, questions, settings."""

import re
from collections.abc import Callable, Mapping

from logherd.controller.admission import ElectionRequest, admit_clean, admit_election
from logherd.controller.commands import Clean, Tune
from logherd.controller.machine import Machine
from logherd.controller.office import Office
from logherd.controller.settings import TUNABLE, OfficeOptions
from logherd.controller.values import BrokerId, Group, GroupKey
from logherd.controller.verdicts import Refusal, Verdict
from logherd.model.names import Epoch
from logherd.service.controllers.codes import refusal_reply
from logherd.service.controllers.scope import key_of
from logherd.service.controllers.steps import AwaitMaster, Catch, Confirm, Decide, Step
from logherd.service.controllers.views import elected_reply, master_header, replicas_info, sync_body
from logherd.service.controllers.why import why_refused
from logherd.service.errors import RequestError
from logherd.service.ports import Reply
from logherd.service.properties_text import format_properties_text, parse_properties_text
from logherd.service.requests import body_reply
from logherd.service.settings_table import refuse_long_text
from logherd.wire.bodies import decode_body
from logherd.wire.bodies.brokers import SyncStateData
from logherd.wire.codes import ResponseCode
from logherd.wire.frame import Frame
from logherd.wire.headers import decode_header
from logherd.wire.headers.controller import CleanBrokerDataHeader, ElectMasterHeader, ReplicaInfoHeader

__all__ = ["clean", "confirm_config", "elect", "get_config", "replica_info", "sync_state", "update_config"]

_WAIT_MS = 2_500
"""Stock tools wait 3 s for the answer to an election."""
_FORBIDDEN = ("configBlackList", "configStorePath", "rocketmqHome")
_NAMES_MAX = 1_000
_NUMBER = re.compile(r"[0-9]{1,18}")


def elect(frame: Frame, office: Office, now: int) -> Step[Reply]:
    """1002: with a designated broker an order, without one the question who leads; answered when that is decided.

    A designated broker that is in sync gets a planned transfer, so nothing is lost. Never unclean: that is asked for
    on the admin port, where the loss is named and the caller is known.
    """
    header = decode_header(ElectMasterHeader, frame.ext)
    key = GroupKey(header.cluster_name, header.broker_name)
    if header.designated:
        return Confirm(lambda now: _order(frame, office, key, header.broker_id, now))
    return Confirm(lambda now: _who_leads(frame, office, key, now))


def _who_leads(frame: Frame, office: Office, key: GroupKey, now: int) -> Step[Reply]:
    group = office.machine.group(key)
    if group is None or not group.replicas:
        return refusal_reply(frame.code, Refusal.UNKNOWN_GROUP)
    if office.leads(group, now):
        return elected_reply(group, ResponseCode.CONTROLLER_MASTER_STILL_EXIST, "the master still exists")
    return _await(group)


def _order(frame: Frame, office: Office, key: GroupKey, broker_id: int, now: int) -> Step[Reply]:
    admitted = admit_election(office, ElectionRequest(group=key, target=BrokerId(broker_id)), now)
    group = office.machine.group(key)
    if isinstance(admitted, Refusal):
        if admitted is Refusal.UNCHANGED and group is not None:
            return elected_reply(group, ResponseCode.CONTROLLER_MASTER_STILL_EXIST, f"broker {broker_id} is the master")
        return refusal_reply(frame.code, admitted, why_refused(admitted, group, office, now) if group else "")
    above = group.epoch if group is not None else Epoch(0)

    def then(verdict: Verdict, now: int) -> Step[Reply]:
        if verdict.refusal is not None or verdict.group is None:
            return refusal_reply(frame.code, verdict.refusal or Refusal.UNKNOWN_GROUP, verdict.detail)
        if verdict.group.epoch > above:
            return elected_reply(verdict.group)
        return _await(verdict.group, BrokerId(broker_id))

    return Decide(admitted, then)


def _await(group: Group, target: BrokerId | None = None) -> AwaitMaster[Reply]:
    """With a target: until that one is elected, or another one because somebody died meanwhile."""
    above, failed = group.epoch, ResponseCode.CONTROLLER_ELECT_MASTER_FAILED

    def then(group: Group, now: int) -> Reply:
        if group.epoch <= above or group.master is None:
            return elected_reply(group, failed, "nobody was elected yet")
        elected = group.master.broker_id
        if target not in (None, elected):
            return elected_reply(group, failed, f"broker {elected} was elected, not {target}")
        return elected_reply(group)

    return AwaitMaster(group.key, above, _WAIT_MS, then)


def replica_info(frame: Frame, office: Office, now: int) -> Step[Reply]:
    """1004: who leads, and who is in sync."""
    header = decode_header(ReplicaInfoHeader, frame.ext)
    key = key_of(office, None, header.broker_name)

    def then(now: int) -> Step[Reply]:
        group = office.machine.group(key)
        if group is None or not group.replicas:
            return refusal_reply(frame.code, Refusal.UNKNOWN_GROUP, header.broker_name)
        return body_reply(sync_body(group), master_header(group))

    return Confirm(then)


def sync_state(frame: Frame, office: Office, now: int) -> Step[Reply]:
    """1006: all replicas of the named groups; unknown names are left out, as in RocketMQ."""
    names = decode_body(list[str], frame.body)[:_NAMES_MAX]
    keys = {name: key_of(office, None, name) for name in names}

    def then(now: int) -> Step[Reply]:
        found = {name: office.machine.group(key) for name, key in keys.items()}
        rows = {
            name: replicas_info(group, office, now)
            for name, group in found.items()
            if group is not None and group.replicas
        }
        return body_reply(SyncStateData(replicas=rows))

    return Confirm(then)


def clean(frame: Frame, office: Office, now: int) -> Step[Reply]:
    """1011: forget brokers, or a whole group."""
    header = decode_header(CleanBrokerDataHeader, frame.ext)
    texts = [text.strip() for text in (header.broker_ids or "").split(";") if text.strip()]
    none = not texts and bool((header.broker_ids or "").strip())  # separators alone: nobody, and not the whole group
    if none or not all(_NUMBER.fullmatch(text) for text in texts):
        raise RequestError(
            ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA, "brokerControllerIdsToClean lists numbers, as 1;2"
        )
    key = key_of(office, header.cluster_name, header.broker_name)
    group = office.machine.group(key)
    command = Clean(
        group=key, expected_epoch=group.epoch if group is not None else Epoch(0),
        broker_ids=tuple(sorted({BrokerId(int(text)) for text in texts})),
    )  # fmt: skip
    admitted = admit_clean(office, command, now, living=header.clean_living)
    if isinstance(admitted, Refusal):
        return refusal_reply(frame.code, admitted, "a broker to be cleaned lives; isCleanLivingBroker would take it")

    def then(verdict: Verdict, now: int) -> Step[Reply]:
        if verdict.refusal is not None:
            return refusal_reply(frame.code, verdict.refusal, verdict.detail)
        return Reply()

    return Decide(admitted, then)


def get_config(shown: Mapping[str, str], options: OfficeOptions) -> Reply:
    """1010: how the controllers are configured: `shown` is what the process was started with."""
    values = {
        **shown,
        "gatherMs": str(options.gather_ms),
        "transferMs": str(options.transfer_ms),
        "preferAfterMs": str(options.prefer_after_ms),
        "bootstrapMs": str(options.bootstrap_ms),
        "enableElectUncleanMaster": "false",
    }
    return Reply(body=format_properties_text(values))


def update_config(frame: Frame, office: Office, now: int) -> Step[Reply]:
    """1009: set options of all controllers; all of them or none."""
    wanted = _wanted(frame)

    def then(verdict: Verdict, now: int) -> Step[Reply]:
        if verdict.refusal is not None:
            return refusal_reply(frame.code, verdict.refusal, verdict.detail)
        return Reply()

    return Decide(Tune(values=wanted), then) if wanted else Reply()


def confirm_config(frame: Frame, machine: Callable[[], Machine], redirect: Callable[[], Reply]) -> Step[Reply]:
    """1009 at a controller that does not lead: done, if the leader has been told the same before.

    A tool that is given all controllers sends it to one after the other, and reports any that does not agree.
    """
    wanted = _wanted(frame)

    def then(now: int) -> Step[Reply]:
        return Reply() if wanted.items() <= machine().settings.items() else redirect()

    return Catch(then)


def _wanted(frame: Frame) -> dict[str, int]:
    refuse_long_text(frame.body)
    wanted: dict[str, int] = {}
    for name, text in parse_properties_text(frame.body.decode("utf-8", "replace")).items():
        if name in _FORBIDDEN:
            raise RequestError(ResponseCode.NO_PERMISSION, f"{name} cannot be set at run time")
        bounds = TUNABLE.get(name)
        if bounds is None:
            raise RequestError(ResponseCode.INVALID_PARAMETER, f"{name} is not one of {', '.join(TUNABLE)}")
        if not (_NUMBER.fullmatch(text) and bounds[0] <= int(text) <= bounds[1]):
            raise RequestError(ResponseCode.INVALID_PARAMETER, f"{name} must be {bounds[0]} to {bounds[1]}")
        wanted[name] = int(text)
    return wanted
