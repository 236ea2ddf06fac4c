#!/usr/bin/env bash
# The wheel in an environment of its own: the built-in configuration serves, and one request is answered by the local model.
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
for _ in $(seq 200); do
  url=$(sed -n 's/.*Groundwire is up at //p' log)
  [ -n "$url" ] && break
  kill -0 "$server" || { cat log; exit 1; }
  sleep 0.1
done
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
