from .job import run_job as run_job
from .settings import JobSettings as JobSettings
