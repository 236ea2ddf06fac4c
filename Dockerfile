# Groundwire with the small local model's engine and the PostgreSQL driver. Build: docker build -t groundwire .
# Run: docker run -p 4000:4000 -v ./config:/config groundwire      (config.yaml and policies/ in ./config; groundwire init writes them)
# With a provider's key in the configuration it starts only where clients have keys (keys: in config.yaml; groundwire new-key NAME makes one)
# or server: {allow_anonymous: true} says that anyone who reaches it may spend that key.
FROM python:3.11-slim AS build
WORKDIR /src
RUN python -m venv /opt/groundwire
ENV PATH=/opt/groundwire/bin:$PATH PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
COPY requirements/all.txt requirements/all.txt
RUN pip install --require-hashes -r requirements/all.txt
COPY pyproject.toml setup.py README.md LICENSE NOTICE MANIFEST.in config.yaml ./
COPY policies policies
COPY schemas schemas
COPY proxy proxy
COPY groundwire groundwire
COPY packages packages
RUN pip install --no-deps . && GROUNDWIRE_CACHE=/opt/groundwire/models groundwire fetch-model
# Unpacked here, for the user below cannot write there: workers share what they map.
RUN GROUNDWIRE_CACHE=/opt/groundwire/models python -c "from proxy.models.embedding.use import UseEncoder; UseEncoder().load()"

FROM python:3.11-slim
# libgomp1: the local model's engine is linked against it.
RUN apt-get update && apt-get install -y --no-install-recommends libgomp1 && rm -rf /var/lib/apt/lists/* \
  && useradd --create-home --uid 10001 groundwire && mkdir -p /config /data && chown groundwire /data /config
COPY --from=build /opt/groundwire /opt/groundwire
# Vectors that a container has made are there when it is started again; mount a volume here to have them in the next one, too.
RUN install -d -o groundwire -m 700 /opt/groundwire/models/vectors
ENV PATH=/opt/groundwire/bin:$PATH GROUNDWIRE_CACHE=/opt/groundwire/models PYTHONUNBUFFERED=1
USER groundwire
WORKDIR /data
EXPOSE 4000
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:4000/health', timeout=2)"]
# A config in /config wins over the built-in one. On 0.0.0.0 an admin key is needed: GROUNDWIRE_ADMIN_KEY, or the one the log shows.
CMD ["sh", "-c", "if [ -f /config/config.yaml ]; then exec groundwire serve --config /config/config.yaml --host 0.0.0.0; else exec groundwire serve --host 0.0.0.0; fi"]
