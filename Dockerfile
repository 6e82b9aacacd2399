# Two images, of a clone: the server (a SuperLink behind the door; server apps run inside it) and a node.
#   docker build --target server --tag steadfed-server .
#   docker build --target node --tag steadfed-node .
# docs/guides/deploy-with-flower.md says what to mount. torch comes in the build that pip finds; for one without CUDA, pass the
# place where yours lies: --build-arg PIP_EXTRA_INDEX_URL=…
FROM python:3.12-slim AS base
ARG PIP_EXTRA_INDEX_URL
ENV FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1 RAY_USAGE_STATS_ENABLED=0 \
    PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /build
COPY pyproject.toml setup.py README.md LICENSE constraints.txt ./
COPY src src
RUN python -m pip install --constraint constraints.txt '.[flower]' \
    && useradd --create-home --uid 10001 steadfed \
    && install --directory --owner=steadfed --mode=0700 /var/lib/steadfed
USER 10001
WORKDIR /var/lib/steadfed
VOLUME /var/lib/steadfed

FROM base AS server
EXPOSE 8000
ENTRYPOINT ["python", "-P", "-m", "steadfed.flower.superlink", "--database", "/var/lib/steadfed/state.db", \
            "--enable-supernode-auth", "--disable-runtime-dependency-installation"]
CMD ["--host", "0.0.0.0", "--port", "8000", "--ssl-ca-certfile", "/etc/steadfed/ca.crt", \
     "--ssl-certfile", "/etc/steadfed/server.pem", "--ssl-keyfile", "/etc/steadfed/server.key"]

FROM base AS node
ENTRYPOINT ["flower-supernode", "--root-certificates", "/etc/steadfed/ca.crt", \
            "--auth-supernode-private-key", "/etc/steadfed/node-key"]
CMD ["--help"]
