# One image for both daemons: `docker run fabricmon agent …`, `docker run fabricmon central …`.
FROM python:3.11-slim-bookworm AS build
WORKDIR /src
COPY requirements.lock ./
RUN python3 -m venv /opt/fabricmon \
 && /opt/fabricmon/bin/python -m pip install --no-cache-dir --require-hashes -r requirements.lock
COPY requirements-dev.lock pyproject.toml README.md LICENSE ./
COPY fabricmon fabricmon
# setuptools is the only part of the development lock that building needs; its hash is checked like the others
RUN python3 -m venv /tmp/build \
 && awk '/^setuptools==/{on=1} on{print} on&&!/\\$/{exit}' requirements-dev.lock > /tmp/setuptools.lock \
 && /tmp/build/bin/python -m pip install --no-cache-dir --require-hashes -r /tmp/setuptools.lock \
 && /tmp/build/bin/python -m pip wheel --no-deps --no-build-isolation --no-cache-dir --wheel-dir /tmp/wheel . \
 && /opt/fabricmon/bin/python -m pip install --no-deps --no-cache-dir /tmp/wheel/*.whl \
 && /opt/fabricmon/bin/python -m pip uninstall --yes --quiet pip setuptools

FROM python:3.11-slim-bookworm
COPY --from=build /opt/fabricmon /opt/fabricmon
RUN mkdir -p /var/lib/fabricmon && chown 65532:65532 /var/lib/fabricmon
ENV PATH=/opt/fabricmon/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
VOLUME /var/lib/fabricmon
EXPOSE 9790 9791
ENTRYPOINT ["fabricmon"]
CMD ["--help"]
