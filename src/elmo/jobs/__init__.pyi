from .job import run_job as run_job
from .settings import JobSettings as JobSettings
from .vectors import open as open
