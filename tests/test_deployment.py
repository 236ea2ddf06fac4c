"""What deploy/ says fits together: compose.yaml, the files that it mounts, Kubernetes' manifests, the Dockerfile, monitoring/."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from proxy.config.settings import load_settings
from proxy.observe.metrics.families import FAMILIES
from tests.cluster import deployment
from tests.cluster.deployment import DEPLOY, ROOT

SECRETS = {
    "GROUNDWIRE_ADMIN_KEY": "a" * 32,
    "GROUNDWIRE_APP_SHA256": "0" * 64,
    "GROUNDWIRE_STORE_URL": "postgresql+asyncpg://groundwire:p@pgbouncer:6432/groundwire",
    "GROUNDWIRE_LIMITS_URL": "valkey://valkey:6379/0",
    "POSTGRES_PASSWORD": "p",
    "GRAFANA_PASSWORD": "p",
}
NODES = ("groundwire-a", "groundwire-b")


def port() -> int:
    """Of the image."""
    (exposed,) = deployment.dockerfile()["EXPOSE"]
    return int(exposed)


def user_id() -> int:
    """Of the user of the image."""
    (made,) = re.findall(r"useradd \S+ --uid (\d+) groundwire", " ".join(deployment.dockerfile()["RUN"]))
    assert ["groundwire"] == deployment.dockerfile()["USER"]
    return int(made)


# ---- compose ----


def test_it_has_the_services_of_a_cluster_each_with_a_healthcheck() -> None:
    services = deployment.services()
    assert {*NODES, "haproxy", "postgres", "pgbouncer", "valkey", "prometheus", "grafana"} == set(services)
    assert deployment.dockerfile()["HEALTHCHECK"][0].count("/health")
    assert [] == [name for name, one in services.items() if name not in NODES and not one["healthcheck"]["test"]]


def test_what_it_mounts_is_there_and_read_only() -> None:
    mounts = [mount.split(":") for one in deployment.services().values() for mount in one.get("volumes", [])]
    made = {"./secrets/userlist.txt"}  # by secrets.sh
    files = [mount for mount in mounts if mount[0].startswith(".")]
    assert len(files) > 8
    assert [] == [mount for mount in files if mount[0] not in made and not (DEPLOY / mount[0]).exists()]
    assert [] == [mount for mount in files if mount[2:] != ["ro"]]
    assert {mount[0] for mount in mounts if not mount[0].startswith(".")} == set(deployment.compose()["volumes"])


def test_a_node_runs_as_the_image_is_made() -> None:
    for name in NODES:
        node = deployment.services()[name]
        assert (True, ["ALL"], ["no-new-privileges:true"]) == (node["read_only"], node["cap_drop"], node["security_opt"])
        assert "command" not in node
        written = [place.split(":") for place in node["tmpfs"]]
        assert {"/tmp", "/data", "/opt/groundwire/models/vectors"} == {place[0] for place in written}
        assert all(f"uid={user_id()}" in place[1] for place in written if place[0] != "/tmp")
        assert int(str(node["stop_grace_period"]).rstrip("s")) > 2 * load_settings(DEPLOY / "config.yaml", SECRETS).server.drain_s
    folders = " ".join([*deployment.dockerfile()["RUN"], *deployment.dockerfile()["WORKDIR"]])
    assert "/data" in folders
    assert "/opt/groundwire/models/vectors" in folders


def test_every_service_but_those_that_must_is_read_only_and_without_capabilities() -> None:
    services = deployment.services()
    assert {"postgres", "grafana"} == {name for name, one in services.items() if not one.get("read_only")}
    assert [] == [name for name, one in services.items() if one["cap_drop"] != ["ALL"]]
    assert {"postgres"} == {name for name, one in services.items() if one.get("cap_add")}


def test_only_the_balancer_is_reachable_from_other_machines() -> None:
    ports = {name: one["ports"] for name, one in deployment.services().items() if "ports" in one}
    assert {"haproxy"} == {name for name, found in ports.items() if any(not mapping.startswith("127.0.0.1:") for mapping in found)}
    assert [f"{port()}:{port()}"] == ports["haproxy"]


def test_a_node_has_what_its_configuration_asks_the_environment_for() -> None:
    asked = dict(re.findall(r"\$\{(\w+)(:-[^}]*)?\}", (DEPLOY / "config.yaml").read_text("utf-8")))
    given = deployment.environment("groundwire-a", SECRETS)
    assert set(asked) == set(given)
    settings = load_settings(DEPLOY / "config.yaml", given)
    assert port() == settings.server.port
    balancer = deployment.services()["haproxy"]["networks"]["default"]["ipv4_address"]
    assert (balancer,) == settings.server.trusted_proxies
    mounted = dict(mount.split(":")[:2] for mount in deployment.services()["groundwire-a"]["volumes"])
    assert ("/config/config.yaml", "/config/policies") == (mounted["./config.yaml"], mounted["../policies"])
    assert [] == [route.policy for route in settings.routes if not (ROOT / route.policy).exists()]
    assert "/config/config.yaml" in deployment.command("groundwire-a")[2]


def test_secrets_are_asked_for_and_never_written_down() -> None:
    text = (DEPLOY / "compose.yaml").read_text("utf-8")
    asked = set(re.findall(r"\$\{(\w+):\?", text))
    assert {"POSTGRES_PASSWORD", "GROUNDWIRE_ADMIN_KEY", "GROUNDWIRE_APP_SHA256", "GRAFANA_PASSWORD"} == asked
    with pytest.raises(KeyError):
        deployment.environment("groundwire-a", {})
    ignored = (ROOT / ".gitignore").read_text("utf-8").splitlines()
    assert {"deploy/.env", "deploy/secrets/", "deploy/kubernetes/secret.yaml"} <= set(ignored)
    assert {"deploy/.env", "deploy/secrets"} <= set((ROOT / ".dockerignore").read_text("utf-8").splitlines())


def test_what_can_be_shown_of_compose_is_filled_as_compose_does_it() -> None:
    assert "a-b-" == deployment.filled("${A}-${B:-b}-${C:-}", {"A": "a"})


def test_addresses_that_servers_call_each_other_by_are_services() -> None:
    services = deployment.services()
    called = re.findall(
        r"(?:server \S+ |host=|@|\w+://|\")([a-z][a-z-]*):\d+", "\n".join(text for text in _texts() if "127.0.0.1:" not in text[:9])
    )
    named = {name for name in called if name not in ("http", "https")}
    assert {"groundwire-a", "groundwire-b", "pgbouncer", "postgres", "valkey", "haproxy", "prometheus"} <= named
    assert named <= set(services)
    assert {name for one in services.values() for name in one.get("depends_on", [])} <= set(services)


def _texts() -> Iterator[str]:
    for name in ("compose.yaml", "haproxy.cfg", "pgbouncer.ini", "prometheus.yml", "grafana/datasource.yml"):
        yield (DEPLOY / name).read_text("utf-8").replace("host=postgres port=", "host=postgres:")


# ---- the files that it mounts ----


def test_the_balancer_asks_what_a_node_answers() -> None:
    text = (DEPLOY / "haproxy.cfg").read_text("utf-8")
    assert "http-check send meth GET uri /ready\n" in text  # without the store: one that is away takes no node out
    assert set(NODES) == set(re.findall(rf"^  server (\S+) \1:{port()}$", text, re.MULTILINE))
    assert {f"{name}-slow": name for name in NODES} == dict(
        re.findall(rf"^  server (\S+) (\S+):{port()} no-check backup$", text, re.MULTILINE)
    )
    assert f"bind :{port()}" in text
    longest = {upstream.timeouts.total_s for upstream in load_settings(DEPLOY / "config.yaml", SECRETS).upstreams.values()}
    waits = [int(found) for found in re.findall(r"timeout (?:client|server) (\d+)s", text)]
    assert min(waits) > max(longest)


def test_the_pooler_lends_for_a_transaction_and_gives_up_before_a_request_does() -> None:
    parser = configparser.ConfigParser()
    parser.read(DEPLOY / "pgbouncer.ini", "utf-8")
    pool, options = parser["pgbouncer"], deployment.command("postgres")
    assert "transaction" == pool["pool_mode"]
    assert float(pool["query_wait_timeout"]) <= 5.0
    most = int(next(option.partition("=")[2] for option in options if option.startswith("max_connections")))
    assert int(pool["default_pool_size"]) < most / 2
    database = dict(pair.split("=") for pair in parser["databases"]["groundwire"].split())
    assert {"host": "postgres", "port": "5432", "dbname": "groundwire"} == database
    assert f":{pool['listen_port']}/groundwire" in deployment.environment("groundwire-a", SECRETS)["GROUNDWIRE_STORE_URL"]


def test_prometheus_scrapes_every_node_and_has_our_alerts() -> None:
    scraped = yaml.safe_load((DEPLOY / "prometheus.yml").read_text("utf-8"))
    targets = {job["job_name"]: job["static_configs"][0]["targets"] for job in scraped["scrape_configs"]}
    assert [f"{name}:{port()}" for name in NODES] == targets["groundwire"]
    mounted = dict(mount.split(":")[:2] for mount in deployment.services()["prometheus"]["volumes"])
    folder = Path(mounted["./prometheus.yml"]).parent
    assert [str(folder / name) for name in scraped["rule_files"]] == [mounted["../monitoring/alerts.yml"]]


def test_grafana_finds_its_data_and_our_dashboard() -> None:
    (source,) = yaml.safe_load((DEPLOY / "grafana/datasource.yml").read_text("utf-8"))["datasources"]
    (provider,) = yaml.safe_load((DEPLOY / "grafana/dashboards.yml").read_text("utf-8"))["providers"]
    mounted = dict(mount.split(":")[:2] for mount in deployment.services()["grafana"]["volumes"])
    assert ("prometheus", "http://prometheus:9090") == (source["type"], source["url"])
    assert provider["options"]["path"] == str(Path(mounted["../monitoring/grafana.json"]).parent)
    assert "groundwire" == json.loads((ROOT / "monitoring/grafana.json").read_text("utf-8"))["uid"]


@pytest.mark.process
def test_secrets_are_made_once_and_fit_each_other(tmp_path: Path) -> None:
    script = tmp_path / "secrets.sh"
    script.write_bytes((DEPLOY / "secrets.sh").read_bytes())
    shown = subprocess.run(["sh", script], capture_output=True, text=True, check=True).stdout
    values = dict(line.split("=", 1) for line in (tmp_path / ".env").read_text().splitlines())
    (key,) = re.findall(r"gw-[0-9a-f]{64}", shown)
    import hashlib

    assert hashlib.sha256(key.encode()).hexdigest() == values["GROUNDWIRE_APP_SHA256"]
    assert f'"groundwire" "{values["POSTGRES_PASSWORD"]}"\n' == (tmp_path / "secrets/userlist.txt").read_text()
    assert (0o600, 0o700) == ((tmp_path / ".env").stat().st_mode & 0o777, (tmp_path / "secrets").stat().st_mode & 0o777)
    for name in deployment.services():
        deployment.environment(name, values)
    assert 1 == subprocess.run(["sh", script], capture_output=True, check=False).returncode


# ---- Kubernetes ----


def manifests() -> list[dict[str, Any]]:
    """What is applied with the folder, and the example of the Secret, which is not."""
    paths = [*sorted((DEPLOY / "kubernetes").glob("*.yaml")), DEPLOY / "kubernetes" / "secret.yaml.example"]
    return [one for path in paths if path.name != "secret.yaml" for one in yaml.safe_load_all(path.read_text("utf-8"))]


def manifest(kind: str, name: str = "groundwire") -> dict[str, Any]:
    (found,) = [one for one in manifests() if (one["kind"], one["metadata"]["name"]) == (kind, name)]
    return found


def pod() -> dict[str, Any]:
    found: dict[str, Any] = manifest("Deployment")["spec"]["template"]["spec"]
    return found


def node() -> dict[str, Any]:
    (found,) = pod()["containers"]
    assert isinstance(found, dict)
    return found


def test_every_manifest_has_its_kind_and_namespace() -> None:
    kinds = {"Namespace", "Secret", "ConfigMap", "Deployment", "Service", "PodDisruptionBudget", "HorizontalPodAutoscaler", "NetworkPolicy"}
    assert kinds == {one["kind"] for one in manifests()}
    assert [] == [one["metadata"] for one in manifests() if one["kind"] != "Namespace" and one["metadata"].get("namespace") != "groundwire"]


def test_no_secret_is_applied_with_the_folder() -> None:
    applied = [
        path for ending in ("yaml", "yml", "json") for path in (DEPLOY / "kubernetes").glob(f"*.{ending}") if path.name != "secret.yaml"
    ]
    assert [] == [path.name for path in applied if "kind: Secret" in path.read_text("utf-8")]


def test_pods_are_confined() -> None:
    assert (True, user_id()) == (pod()["securityContext"]["runAsNonRoot"], pod()["securityContext"]["runAsUser"])
    assert "RuntimeDefault" == pod()["securityContext"]["seccompProfile"]["type"]
    for container in (*pod()["initContainers"], *pod()["containers"]):
        confined = container["securityContext"]
        assert (True, False) == (confined["readOnlyRootFilesystem"], confined["allowPrivilegeEscalation"])
        assert ["ALL"] == confined["capabilities"]["drop"]
        assert container["resources"]["limits"]["memory"]
    assert pod()["automountServiceAccountToken"] is False


def test_what_a_node_writes_is_on_volumes() -> None:
    mounted = {mount["mountPath"]: mount["name"] for mount in node()["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod()["volumes"]}
    compose = {place.split(":")[0] for place in deployment.services()["groundwire-a"]["tmpfs"]}
    assert compose | {"/config"} == set(mounted)
    assert all("emptyDir" in volumes[name] for name in mounted.values())
    asked = {mount["name"] for container in (*pod()["initContainers"], node()) for mount in container["volumeMounts"]}
    assert asked == set(volumes)


def test_probes_ask_what_is_served() -> None:
    probes = {name: node()[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    assert {"startup": "/health", "liveness": "/health", "readiness": "/ready"} == {name: one["path"] for name, one in probes.items()}
    assert {"http"} == {one["port"] for one in probes.values()}
    assert [{"name": "http", "containerPort": port()}] == node()["ports"]
    (served,) = manifest("Service")["spec"]["ports"]
    assert "http" == served["targetPort"]


def test_a_pod_that_goes_has_time_to_drain() -> None:
    command = node()["lifecycle"]["preStop"]["exec"]["command"]
    drain_s = kubernetes_settings().server.drain_s
    assert pod()["terminationGracePeriodSeconds"] > int(command[1]) + 2 * drain_s
    assert 0 == manifest("Deployment")["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"]


def kubernetes_settings(folder: Path | None = None) -> Any:
    """The ConfigMap's config.yaml, with the Secret's values."""
    folder = folder or DEPLOY
    place = folder / "config.yaml"
    text = manifest("ConfigMap")["data"]["config.yaml"]
    if folder is not DEPLOY:
        place.write_text(text, "utf-8")
        return load_settings(place, manifest("Secret")["stringData"])
    return _parsed(text)


def _parsed(text: str) -> Any:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.yaml").write_text(text, "utf-8")
        return load_settings(Path(folder) / "config.yaml", manifest("Secret")["stringData"])


def test_the_config_map_is_deploys_config_with_other_proxies() -> None:
    own = yaml.safe_load((DEPLOY / "config.yaml").read_text("utf-8"))
    mapped = yaml.safe_load(manifest("ConfigMap")["data"]["config.yaml"])
    for config in (own, mapped):
        del config["server"]["trusted_proxies"]
    assert own == mapped
    assert kubernetes_settings().keys[0].name == "app"


def test_selectors_select_the_pods() -> None:
    labels = manifest("Deployment")["spec"]["template"]["metadata"]["labels"]
    selectors = [
        manifest("Deployment")["spec"]["selector"]["matchLabels"],
        manifest("Service")["spec"]["selector"],
        manifest("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        manifest("NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
    ]
    assert [labels] * 4 == selectors


def test_it_scales_by_a_metric_of_ours() -> None:
    (metric,) = manifest("HorizontalPodAutoscaler")["spec"]["metrics"]
    (rule,) = yaml.safe_load(manifest("ConfigMap", "groundwire-adapter")["data"]["config.yaml"])["rules"]
    assert rule["name"]["as"] == metric["pods"]["metric"]["name"]
    (series,) = set(re.findall(r"groundwire_\w+_total", rule["seriesQuery"] + rule["metricsQuery"]))
    assert series in {f"{family.name}_total" for family in FAMILIES}
    assert manifest("HorizontalPodAutoscaler")["spec"]["scaleTargetRef"]["name"] == manifest("Deployment")["metadata"]["name"]


def test_one_node_may_go_while_another_serves() -> None:
    least = manifest("HorizontalPodAutoscaler")["spec"]["minReplicas"]
    assert manifest("PodDisruptionBudget")["spec"]["minAvailable"] < least
    assert least <= manifest("Deployment")["spec"]["replicas"]


def test_the_network_lets_in_the_port_that_is_served() -> None:
    policy = manifest("NetworkPolicy")["spec"]
    assert {"Ingress", "Egress"} == set(policy["policyTypes"])
    assert [port()] == [one["port"] for rule in policy["ingress"] for one in rule["ports"]]
    out = {one["port"] for rule in policy["egress"] for one in rule["ports"]}
    url = manifest("Secret")["stringData"]["GROUNDWIRE_STORE_URL"]
    assert {53, 443, int(re.findall(r":(\d+)/", url)[0])} <= out


@pytest.mark.process
def test_the_init_container_makes_a_configuration_that_is_checked(tmp_path: Path) -> None:
    """Its command, on this machine's folders."""
    import os
    import sys

    settings, config = tmp_path / "settings", tmp_path / "config"
    settings.mkdir()
    (settings / "config.yaml").write_text(manifest("ConfigMap")["data"]["config.yaml"], "utf-8")
    command = pod()["initContainers"][0]["command"]
    script = deployment.moved(
        command[2], {"/config/": f"{config}/", "init /config": f"init {shlex.quote(str(config))}", "/settings/": f"{settings}/"}
    )
    environment = {
        **os.environ,
        **manifest("Secret")["stringData"],
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    done = subprocess.run([*command[:2], script], env=environment, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stdout + done.stderr
    assert (config / "policies" / "default.yaml").exists()
