# One image for both daemons: `docker run fabricmon agent …`, `docker run fabricmon central …`.
# `make image` fills in the labels. Built again from the same commit its layers are the same (docs/install.md).
# The base by its digest (index of all platforms; Python 3.11.16 of 2026-08-25), as the publisher lists it in
# https://github.com/docker-library/repo-info/blob/master/repos/python/remote/3.11-slim-bookworm.md
ARG BASE=python:3.11-slim-bookworm@sha256:0bee7276f83efd4a1ee05bbbf4281d95ed28e079220a9457f25a93e3f1e3c31b
FROM ${BASE} AS build
# The time of every file of ours in the image: nothing in it depends on the time of the build. Not before 1980, for zip's sake.
ARG SOURCE_DATE_EPOCH=315532800
ENV SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1 \
    PIP_NO_CACHE_DIR=1 PIP_NO_COMPILE=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY requirements.lock ./
RUN python3 -m venv /opt/fabricmon \
 && /opt/fabricmon/bin/python -m pip install --require-hashes -r requirements.lock
COPY requirements-dev.lock pyproject.toml README.md LICENSE ./
COPY fabricmon fabricmon
# setuptools is the only part of the development lock that building needs; its hash is checked like the others
RUN python3 -m venv /tmp/build \
 && awk '/^setuptools==/{on=1} on{print} on&&!/\\$/{exit}' requirements-dev.lock > /tmp/setuptools.lock \
 && /tmp/build/bin/python -m pip install --require-hashes -r /tmp/setuptools.lock \
 && /tmp/build/bin/python -m pip wheel --no-deps --no-build-isolation --wheel-dir /tmp/wheel . \
 && /opt/fabricmon/bin/python -m pip install --no-deps /tmp/wheel/*.whl \
 && /opt/fabricmon/bin/python -m pip uninstall --yes --quiet pip setuptools
# Tests, headers and stubs of libraries are of no use here. Byte code comes along, for nothing can be written later; it
# is not compared with its source's time, which is the same for all files.
RUN find /opt/fabricmon -depth -type d \( -name tests -o -name __pycache__ -o -path '*/numpy/_core/include' \) -exec rm -r {} + \
 && find /opt/fabricmon \( -name '*.pyi' -o -name '*.a' \) -delete \
 && python3 -m compileall -q -j 1 --invalidation-mode unchecked-hash /opt/fabricmon/lib \
 && mkdir -p /image/opt /image/var/lib/fabricmon \
 && chown 65532:65532 /image/var/lib/fabricmon \
 && mv /opt/fabricmon /image/opt/ \
 && find /image -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +

FROM ${BASE}
ARG BASE
ARG VERSION=0.1.0
ARG REVISION=unknown
ARG CREATED=unknown
ARG SOURCE=unknown
LABEL org.opencontainers.image.title="fabricmon" \
      org.opencontainers.image.description="Fabric telemetry and health monitoring for GPU clusters" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source=$SOURCE \
      org.opencontainers.image.version=$VERSION \
      org.opencontainers.image.revision=$REVISION \
      org.opencontainers.image.created=$CREATED \
      org.opencontainers.image.base.name=$BASE
COPY --from=build /image/ /
ENV PATH=/opt/fabricmon/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PYTHONFAULTHANDLER=1
USER 65532:65532
VOLUME /var/lib/fabricmon
EXPOSE 9790 9791
HEALTHCHECK --interval=60s --timeout=10s --start-period=30s --retries=3 CMD ["fabricmon", "alive"]
ENTRYPOINT ["fabricmon"]
CMD ["--help"]
