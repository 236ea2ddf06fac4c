#!/usr/bin/env bash
# The wheel in an environment of its own: the built-in configuration serves, and one request is answered by the local model. Before that the plain
# wheel, without an extra, in another one: what `groundwire init` writes for a provider is right and served; what needs an extra names it. Last
# a new user's way as far as an alert.
set -euo pipefail
wheel=$(realpath "$1")
root=$(realpath "$(dirname "$0")/..")
work=$(mktemp -d)
finish() {
  if [ -n "${server:-}" ]; then
    kill "$server" 2>/dev/null || true
    wait "$server" || true
  fi
  rm -rf "$work"
}
trap finish EXIT
awaited() {  # the address of the server whose log is $1
  for _ in $(seq 600); do
    url=$(sed -n 's/.*Groundwire is up at //p' "$1")
    [ -n "$url" ] && return
    kill -0 "$server" || break
    sleep 0.1
  done
  cat "$1"
  exit 1
}
sed -nE 's/^([A-Za-z0-9._-]+==[^ \\]+)( ;[^\\]*)?.*$/\1\2/p' "$root/requirements/all.txt" >"$work/versions.txt"
python3 -m venv --without-pip "$work/plain"
install=$(cd "$root" && python3 -c "import pathlib, sys; from requirements.install import uv; print(*uv(pathlib.Path(sys.argv[1])))" "$work/plain")
$install --quiet --constraint "$work/versions.txt" "$wheel"  # resolved by the wheel's own requirements; pip would read for half a minute
cd "$work"
plain/bin/python -c "import importlib.util as u, sys; sys.exit(any(u.find_spec(name) for name in ('litellm', 'faiss', 'xllamacpp', 'boto3')))"
plain/bin/groundwire init mine --provider anthropic --key-env WHEEL_KEY
plain/bin/groundwire check --config mine/config.yaml
if plain/bin/groundwire check 2>missing; then exit 1; fi  # the built-in configuration has the local model
grep -qF "pip install 'groundwire[local]'" missing
plain/bin/groundwire serve --config mine/config.yaml --port 0 >plain.log 2>&1 &
server=$!
awaited plain.log
plain/bin/python -c "import sys, urllib.request; print('plain:', urllib.request.urlopen(sys.argv[1] + '/health', timeout=60).status)" "$url"
kill "$server"
wait "$server" || true
(cd "$root" && python3 -m requirements.install "$work/venv" requirements/all.txt)
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps "$wheel"
cd "$work"
venv/bin/groundwire check
venv/bin/python -c "from groundwire.faithful import extract_citations; import groundwire; groundwire.stage.Stage"  # the public names
venv/bin/python -c "from proxy.models.tools.index import shipped; shipped()"  # its weights are in the wheel
venv/bin/python -c "from proxy.models.verifier.onnx import OnnxVerifier; OnnxVerifier().load()"  # and the verifier's
venv/bin/python -c "from proxy.admin.dashboard.rendering import render; render('sign_in.html', visitor=None, then='', problem='')"  # the pages' templates
venv/bin/groundwire fetch-model
venv/bin/groundwire serve --port 0 >log 2>&1 &
server=$!
awaited log
answer=$(venv/bin/python - "$url" <<'PY'
import json, sys, urllib.request
body = {"model": "smollm2", "messages": [{"role": "user", "content": "Which planet is the largest?"}], "max_tokens": 40}
request = urllib.request.Request(sys.argv[1] + "/v1/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"})
with urllib.request.urlopen(request, timeout=60) as response:
    print(response.headers["x-groundwire-verdict"], json.load(response)["choices"][0]["message"]["content"])
PY
)
echo "the wheel's answer: $answer"
case "$answer" in unchecked*) ;; *) cat log; exit 1 ;; esac
kill "$server"
wait "$server" || true
server=
# A new user's way on from there: an error that is caught, a decision about it, an alert.
(cd "$root" && .venv/bin/python -m benchmarks.first_minutes --installed "$work/venv/bin/groundwire")
