"""For every test: a skip is a failure in CI, and property tests print how to repeat what they found."""

import logging
import os
import resource
import signal
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

IN_CI = os.environ.get("CI") == "true"

# Shared processors make single examples slow now and then; that is no finding.
# How fast examples are made is the machine's affair, as is how long they take.
settings.register_profile("logherd", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("logherd")

# Whoever ends a run with `timeout` wants its processes ended, too: fixtures must be left as on ctrl-C.
signal.signal(signal.SIGTERM, signal.default_int_handler)

# Thousands of stores are opened in one process, some of which a test leaves as a killed process does.
_soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
_DESCRIPTORS = 1 << 14
if _soft < _DESCRIPTORS:
    resource.setrlimit(resource.RLIMIT_NOFILE, (_DESCRIPTORS if _hard < 0 else min(_DESCRIPTORS, _hard), _hard))


@pytest.fixture(autouse=True)
def _log_level() -> Generator[None, None, None]:
    """What a test that runs a process's own code sets for all of them would be found by another one, now and then."""
    logger = logging.getLogger("logherd")
    level = logger.level
    yield
    if logger.level != level:
        logger.setLevel(level)


# Of two processes that run compat or system, a file each at a time, none shall be left with minutes of them at the end.
LONGEST_FIRST = (
    "test_classic_ha", "test_founded_by_rocketmq", "test_store_exchange", "test_mqadmin",
    "test_group_chaos", "test_controllers", "test_up_modes", "test_healing", "test_up_changes",
    "test_damage_everywhere", "test_register", "test_failover", "test_static_group", "test_voting_group", "test_up",
    "test_kill",
)  # fmt: skip


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    place = {name: i for i, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: place.get(item.path.stem, len(place)))


def fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn a skip into a failure: in CI everything must have run. An expected failure is no skip."""
    if IN_CI and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"skipped, and in CI nothing may be: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    fail_if_skipped(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    fail_if_skipped(report)
    return report
