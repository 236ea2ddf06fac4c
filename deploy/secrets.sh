#!/bin/sh
# Writes what is secret, once, beside compose.yaml: .env (passwords, the operator's key, the hash of the first client's key) and
# secrets/userlist.txt, by which PgBouncer knows its client. Shows the first client's key, which is stored nowhere.
set -eu
cd "$(dirname "$0")"
[ ! -e .env ] || { echo ".env is there already" >&2; exit 1; }
random() { od -An -N32 -tx1 /dev/urandom | tr -d ' \n'; }
password=$(random)
key="gw-$(random)"
umask 077
mkdir -p secrets
printf '"groundwire" "%s"\n' "$password" > secrets/userlist.txt
chmod 644 secrets/userlist.txt  # read in the container by another user than this one; the folder is its owner's alone
cat > .env <<END
POSTGRES_PASSWORD=$password
GROUNDWIRE_ADMIN_KEY=$(random)
GROUNDWIRE_APP_SHA256=$(printf %s "$key" | sha256sum | cut -d' ' -f1)
GRAFANA_PASSWORD=$(random)
OPENAI_API_KEY=${OPENAI_API_KEY:-}
END
echo "The key of the client \"app\", shown only now: $key"
