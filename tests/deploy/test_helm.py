"""The chart renders, with several value files, to what Kubernetes and its operators take and this service has."""

import json
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml
from cryptography.fernet import Fernet
from jsonschema import Draft7Validator
from kubernetes_validate.utils import ValidationError, validate
from sqlalchemy import text

from deploy.cli.app import COMMANDS
from deploy.settings import find_missing_urls, load_settings
from deploy.worker.process import THREADS_END_MS
from deploy.worker.resources import GRACE_S
from store.database import Database
from store.ledger.stages import Stage
from tests.deploy.observability.test_observability import rules
from tests.packages import find_or_skip
from tests.servers import TestPostgres
from tests.store.conftest import new_host, settings_of
from tests.tables import each_row
from workers.settings import DeliverySettings

HELM = Path(__file__).parents[2] / "deploy" / "helm"
CHART = HELM / "afterturn"
VALUES = sorted((HELM / "values").glob("*.yaml"))
SCHEMAS = Path(__file__).parent / "schemas"
DATABASE = "postgresql+asyncpg://a:b@localhost/c"
SECRETS = {"broker-url": "redis://localhost", "sealing-keys": Fernet.generate_key().decode()}
KUBERNETES = ("1.30", "1.37")
INSERT = text("""
    insert into afterturn.ledger_t (host_id, stage, item_id, stream_id, bank_id, session_id, turn_id, position,
                                    accepted_at, next_attempt_at)
    select :host, :stage, gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), gen_random_uuid(),
           gen_random_uuid(), :position, now() - interval '70 seconds',
           now() + cast(cast(:wait as text) as interval)""")


def helm(*arguments: str) -> "subprocess.CompletedProcess[str]":
    beside = Path(sys.executable).with_name("helm")
    program = find_or_skip(str(beside) if beside.exists() else shutil.which("helm"), "helm is not here: make helm")
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)


@cache
def rendered(values: Path) -> list[dict[str, Any]]:
    done = helm("template", "memory", str(CHART), "--values", str(values))
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one]


def of_kind(values: Path, kind: str) -> Iterator[dict[str, Any]]:
    return (one for one in rendered(values) if one["kind"] == kind)


def pods(values: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for one in (*of_kind(values, "Deployment"), *of_kind(values, "Job")):
        yield one["metadata"]["name"], one["spec"]["template"]["spec"]


each = pytest.mark.parametrize("values", VALUES, ids=lambda path: path.stem)


@each
def test_the_chart_is_clean_and_renders_what_the_published_schemas_take(values: Path) -> None:
    linted = helm("lint", "--strict", str(CHART), "--values", str(values))
    assert linted.returncode == 0, linted.stdout
    names = [(one["kind"], one["metadata"]["name"]) for one in rendered(values)]
    assert len(names) == len(set(names)) > 6
    for one in rendered(values):
        own = SCHEMAS / f"{one['kind']}.json"
        if own.exists():
            Draft7Validator(json.loads(own.read_text(encoding="utf-8"))).validate(one)
        else:
            for version in KUBERNETES:
                validate(one, version, strict=True)


def test_the_charts_rules_are_those_of_prometheus() -> None:
    shown = [rule for one in of_kind(HELM / "values" / "production.yaml", "PrometheusRule") for rule in all_rules(one)]
    assert shown == rules("prometheus/recording.yml") + rules("prometheus/alerts.yml")


def test_alerts_link_to_the_runbook_where_the_values_say() -> None:
    where = "prometheusRule.enabled=true,prometheusRule.runbookUrl=https://pages.example/runbook"
    done = helm("template", "memory", str(CHART), "--set", where)
    assert "runbook_url: https://pages.example/runbook#afterturnapidown" in done.stdout
    assert "docs/runbook.md" not in done.stdout.replace("docs/runbook.md.", "")


def all_rules(made: dict[str, Any]) -> list[dict[str, Any]]:
    return [rule for group in made["spec"]["groups"] for rule in group["rules"]]


def test_a_field_that_no_schema_knows_is_refused() -> None:
    [deployment, *_] = of_kind(VALUES[0], "Deployment")
    wrong = json.loads(json.dumps(deployment))
    wrong["spec"]["template"]["spec"]["containers"][0]["livenessProbes"] = {}
    with pytest.raises(ValidationError):
        validate(wrong, KUBERNETES[-1], strict=True)


@each
def test_settings_and_commands_of_its_pods_are_those_of_this_version(values: Path, tmp_path: Path) -> None:
    for name, pod in pods(values):
        [container] = pod["containers"]
        assert container["args"][0] in COMMANDS, name
        environment = {one["name"]: one["value"] for one in container["env"]}
        for key in [key for key in environment if key.endswith("_FILE")]:
            file = tmp_path / Path(environment[key]).relative_to("/run/secrets/afterturn")
            file.write_text(SECRETS.get(file.name, DATABASE))
            environment[key] = str(file)
        loaded = load_settings({**environment, "AFTERTURN_DATA": str(tmp_path)})
        assert loaded.ignored == ()
        assert not find_missing_urls(loaded.settings)
    stages = [
        stage
        for name, pod in pods(values)
        if "-worker-" in name
        for stage in pod["containers"][0]["args"][2].split(",")
    ]
    assert sorted(stages) == sorted([*Stage, "recall"])


@each
def test_pods_run_without_privileges_and_few_have_the_owners_url(values: Path) -> None:
    pools = yaml.safe_load((CHART / "values.yaml").read_text())["workers"]
    for name, pool in yaml.safe_load(values.read_text()).get("workers", {}).items():
        pools[name] = pool and pools.get(name, {}) | pool
    owners = [f"-worker-{name}" for name, pool in pools.items() if pool and pool.get("owner")]
    assert len(owners) == 1, "one pool builds the vector indexes of large banks"
    for name, pod in pods(values):
        [container] = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert pod["enableServiceLinks"] is False
        assert not [one for one in container["env"] if "valueFrom" in one or "://" in str(one["value"])]
        [secrets] = [one["secret"] for one in pod["volumes"] if one["name"] == "secrets"]
        owner = "owner-url" in {item["key"] for item in secrets["items"]}
        assert owner == name.endswith(("-migrate", *owners))
        if not name.endswith("-migrate"):
            assert {"startupProbe", "livenessProbe", "readinessProbe"} <= set(container)
            assert container["resources"]["requests"]
    jobs = list(of_kind(values, "Job"))
    assert all("pre-upgrade" in one["metadata"]["annotations"]["helm.sh/hook"] for one in jobs)


@each
def test_a_pod_has_longer_to_end_than_its_process_needs(values: Path) -> None:
    own = DeliverySettings().stop_seconds + GRACE_S + THREADS_END_MS / 1000
    for name, pod in pods(values):
        if "-worker-" in name:
            assert pod["terminationGracePeriodSeconds"] > own + 10


@each_row(
    "setting, why",
    [
        ("workers.embedding.stages={recall}", "no pool of workers does the stage embedding"),
        ("keda.scaleToZero={main}", "a caller waits"),
        ("keda.scaleToZero={nonsense}", "there is no pool nonsense"),
        ("workers.main.stages={everything}", "workers/main/stages"),
        ("api.replica=3", "replica"),
        ("workerz.main.replicas=3", "workerz"),
        ("image.digest=latest", "image/digest"),
        ("keda.scaleTo=1", "scaleTo"),
    ],
)
def test_values_that_mean_nothing_or_would_leave_work_undone_are_refused(setting: str, why: str) -> None:
    refused = helm("template", "memory", str(CHART), "--set", "keda.enabled=true", "--set", setting)
    assert refused.returncode == 1
    assert why in refused.stderr


def test_the_operators_api_is_reached_from_outside_only_where_the_values_say_so() -> None:
    production = HELM / "values" / "production.yaml"
    [ingress] = of_kind(production, "Ingress")
    paths = {one["path"]: one["backend"]["service"]["name"] for one in ingress["spec"]["rules"][0]["http"]["paths"]}
    services = {one["metadata"]["name"]: one["spec"] for one in of_kind(production, "Service")}
    assert "selector" in services[paths["/api"]]
    assert "selector" not in services[paths["/api/v1/operator"]]
    opened = helm("template", "memory", str(CHART), "-f", str(production), "--set", "api.ingress.operator=true")
    assert "/api/v1/operator" not in opened.stdout
    assert "closed" not in opened.stdout


def test_the_plugin_is_there_where_the_values_say_so_with_a_token_and_for_callers_of_the_cluster_alone() -> None:
    minimal, production = (HELM / "values" / f"{name}.yaml" for name in ("minimal", "production"))
    assert not [name for name, _ in pods(minimal) if name.endswith("-plugin")]
    [pod] = [pod for name, pod in pods(production) if name.endswith("-plugin")]
    [container] = pod["containers"]
    environment = {one["name"]: one["value"] for one in container["env"]}
    assert container["args"] == ["plugin", "--listen", f"0.0.0.0:{container['ports'][0]['containerPort']}"]
    assert environment["AFTERTURN_PLUGIN__TENANT"] == "acme"
    [secrets] = [one["secret"] for one in pod["volumes"] if one["name"] == "secrets"]
    token = Path(environment["AFTERTURN_PLUGIN__TOKEN_FILE"])
    assert token.name in {item["path"] for item in secrets["items"]}
    others = [pod for name, pod in pods(production) if not name.endswith("-plugin")]
    assert token.name not in json.dumps(others)
    compile(container["readinessProbe"]["exec"]["command"][2], "probe", "exec")
    [service] = [one for one in of_kind(production, "Service") if one["metadata"]["name"].endswith("-plugin")]
    assert service["spec"].get("type", "ClusterIP") == "ClusterIP"
    assert "-plugin" not in json.dumps(list(of_kind(production, "Ingress")))
    [policy] = [one for one in of_kind(production, "NetworkPolicy") if one["metadata"]["name"].endswith("-plugin")]
    [allowed] = policy["spec"]["ingress"]
    assert "monitoring" not in json.dumps(allowed["from"])


def test_an_image_is_named_by_its_digest_where_one_is_given() -> None:
    digest = f"sha256:{'0' * 64}"
    done = helm("template", "memory", str(CHART), "--set", f"image.digest={digest}")
    assert f'"afterturn@{digest}"' in done.stdout


@pytest_asyncio.fixture(loop_scope="session")
async def lonely(fresh_database: TestPostgres) -> AsyncIterator[Database]:
    database = Database(settings_of(fresh_database))
    yield database
    await database.close()


def scaled(values: Path) -> dict[str, list[dict[str, Any]]]:
    """The triggers of each pool."""
    return {
        one["metadata"]["labels"]["afterturn.dev/pool"]: one["spec"]["triggers"]
        for one in of_kind(values, "ScaledObject")
    }


async def test_the_scalers_queries_see_what_is_ready_as_the_role_that_the_chart_creates(lonely: Database) -> None:
    """`db init` of the migration job makes afterturn_operator, as whom KEDA asks."""

    async def asked() -> dict[str, list[int]]:
        found = dict[str, list[int]]()
        for pool, triggers in scaled(HELM / "values" / "production.yaml").items():
            async with lonely.operator() as connection:
                results = [await connection.execute(text(one["metadata"]["query"])) for one in triggers]
                found[pool] = [int(result.scalar_one()) for result in results]
        return found

    assert await asked() == {"embedding": [0, 0], "main": [0, 0, 0]}
    host = await new_host(lonely)
    waiting = (("embedding", "0 s"), ("embedding", "0 s"), ("gateway", "1 hour"), ("projection", "infinity"))
    async with lonely.tenant(host) as connection:
        for position, (stage, wait) in enumerate(waiting, 1):
            await connection.execute(INSERT, {"host": host, "stage": stage, "position": position, "wait": wait})
    seen = await asked()
    rows, age = seen["embedding"]
    assert rows == 2
    assert 70 <= age < 600
    assert seen["main"] == [0, 0, 0], "what waits for a retry asks for no worker"
