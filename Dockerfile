# The page for many people: the light set, no torch, no root. `docker build -t kv-planner . && docker run -p 8501:8501 kv-planner`
FROM python:3.12-slim

ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 \
    HF_HOME=/home/planner/.cache/huggingface HF_HUB_DISABLE_TELEMETRY=1

RUN useradd --create-home --uid 1000 planner
WORKDIR /app

COPY requirements-app.txt ./
RUN pip install -r requirements-app.txt

COPY app.py serve.py ./
COPY .streamlit .streamlit
COPY planner planner
COPY model_configs model_configs
COPY validation validation
COPY ui ui

USER planner
EXPOSE 8501
# Streamlit's own answer; Python asks, because the slim image has no curl.
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8501/_stcore/health', timeout=4)"]
CMD ["python", "-m", "streamlit", "run", "serve.py", "--server.address=0.0.0.0", "--server.port=8501"]
