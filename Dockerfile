# `elmo serve` with both included models, for amd64 and arm64: docker build -t modern-elmo .
#   docker run --rm -p 8600:8600 --read-only --cap-drop ALL --security-opt no-new-privileges modern-elmo
# SENSES=yes adds scikit-learn and SciPy, 150 MB that only the map of senses needs.
FROM python:3.13-slim AS build
ARG SENSES=no
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev
COPY pyproject.toml hatch_build.py README.md LICENSE /src/
COPY LICENSES /src/LICENSES
COPY src /src/src
RUN python -m venv /opt/elmo
RUN ELMO_BUILD_KERNELS=require /opt/elmo/bin/python -m pip install --no-cache-dir --no-compile '/src[serve]'
RUN test "$SENSES" = yes || /opt/elmo/bin/python -m pip uninstall --yes scikit-learn scipy joblib threadpoolctl narwhals
RUN find /opt/elmo -depth -type d -name tests -path '*site-packages*' -exec rm -r {} + \
    && /opt/elmo/bin/python -m pip uninstall --yes hf-xet pip \
    && /opt/elmo/bin/python -m compileall -q /opt/elmo/lib

FROM python:3.13-slim
LABEL org.opencontainers.image.source="https://github.com/modern-elmo/modern-elmo" \
      org.opencontainers.image.licenses="Apache-2.0 AND CC-BY-SA-3.0"
COPY --from=build /opt/elmo /opt/elmo
# Nothing is written: no byte code, no cache; models of the hub are mounted as folders.
ENV PATH=/opt/elmo/bin:$PATH PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1 ELMO_SERVE_HOST=0.0.0.0 ELMO_SERVE_PORT=8600
USER 10001:10001
EXPOSE 8600
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s \
    CMD ["python", "-c", "import os, urllib.request as u; u.urlopen(f'http://127.0.0.1:{os.environ[\"ELMO_SERVE_PORT\"]}/health', timeout=4)"]
ENTRYPOINT ["elmo", "serve"]
