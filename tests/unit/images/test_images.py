"""Images: from a base that is given, as nobody in particular, with what is locked and nothing beside it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FILES = sorted((ROOT / "images").glob("*/Dockerfile"))


def locked(*names: str) -> set[str]:
    command = [sys.executable, str(ROOT / "tools/locked_part.py"), *names]
    text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert text.count("==") <= text.count("--hash=sha256:")
    return set(re.findall(r"^([a-z0-9-]+)==", text, re.MULTILINE))


def test_a_broker_carries_what_it_imports_and_no_operator_and_no_tools() -> None:
    found = locked("project")
    assert {"uvloop", "msgspec", "h11", "pydantic", "pydantic-core", "typer"} <= found
    assert not {"kopf", "kubernetes", "aiohttp", "mypy", "pytest", "hatchling"} & found


def test_an_operator_carries_kopf_and_all_that_it_needs() -> None:
    found = locked("project", "operator")
    assert {"kopf", "kubernetes", "aiohttp", "yarl", "multidict", "click"} <= found
    assert not {"mypy", "pytest", "hypothesis"} & found


def test_what_is_not_locked_is_named() -> None:
    command = [sys.executable, str(ROOT / "tools/locked_part.py"), "no-such-thing"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert answer.returncode != 0
    assert "not in requirements.lock: no-such-thing" in answer.stderr


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_each_image_has_a_given_base_and_runs_as_nobody(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert {line for line in lines if line.startswith("FROM")} == {"FROM ${BASE} AS build", "FROM ${BASE}"}
    users = [line.split()[1] for line in lines if line.startswith("USER")]
    assert len(users) == 1
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", users[0])
    assert "ARG SOURCE_DATE_EPOCH=0" in lines


def test_there_is_one_for_each_of_three() -> None:
    assert [path.parent.name for path in FILES] == ["broker", "operator", "spark"]


@pytest.mark.parametrize("script", ["install", "spark/entrypoint"])
def test_scripts_are_shell(script: str) -> None:
    subprocess.run(["sh", "-n", ROOT / "images" / script], check=True, timeout=30)


@pytest.mark.parametrize(
    ("given", "classes"),
    [
        ({}, "{home}/conf:{home}/jars/*"),
        (
            {"SPARK_CLASSPATH": "/opt/own/*", "SPARK_CONF_DIR": "/opt/spark/conf", "HADOOP_CONF_DIR": "/etc/hadoop",
             "SPARK_EXTRA_CLASSPATH": "/opt/more.jar", "SPARK_DIST_CLASSPATH": "/opt/hadoop/*"},
            "/opt/spark/conf:/etc/hadoop:/opt/own/*:{home}/jars/*:/opt/more.jar:/opt/hadoop/*",
        ),
    ],
    ids=["plain", "everything"],
)  # fmt: skip
def test_an_executor_finds_what_the_job_and_the_image_add_to_sparks_classes(
    tmp_path: Path, given: dict[str, str], classes: str
) -> None:
    """`spark.executor.extraClassPath` comes as SPARK_CLASSPATH, log4j2.properties and Hadoop's settings in folders."""
    home = tmp_path / "pyspark"
    for name, text in {"python3": f"echo {home}", "java": 'printf "%s\\n" "$@"'}.items():
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    told = {
        "SPARK_JAVA_OPT_0": "-Da=b c", "SPARK_EXECUTOR_MEMORY": "1g", "SPARK_DRIVER_URL": "u",
        "SPARK_EXECUTOR_ID": "1", "SPARK_EXECUTOR_CORES": "2", "SPARK_APPLICATION_ID": "app",
        "SPARK_EXECUTOR_POD_IP": "10.0.0.9", "SPARK_RESOURCE_PROFILE_ID": "0", "SPARK_EXECUTOR_POD_NAME": "exec-1",
    }  # fmt: skip
    ended = subprocess.run(
        ["sh", ROOT / "images/spark/entrypoint", "executor"], capture_output=True, text=True, check=True, timeout=30,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", **told, **given},
    )  # fmt: skip
    words = ended.stdout.splitlines()
    assert words[:5] == ["-Da=b c", "-Xms1g", "-Xmx1g", "-cp", classes.format(home=home)]
    assert words[-2:] == ["--podName", "exec-1"]
