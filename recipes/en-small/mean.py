"""Write the weighted mean of two models of one run, with the context layer and the sentence head of the first.

    python recipes/en-small/mean.py MODEL OTHER SHARE OUTPUT

SHARE is the weight of MODEL. `elmo.checkpoint.average` drops both components because the layers they were fitted to
change; here the head still fits (STS-B dev 79.8 instead of 79.4), and elmo fuse creates the context layer again.
"""

import sys
from dataclasses import replace
from pathlib import Path

from elmo.checkpoint.derived import average
from elmo.checkpoint.folder import write_folder
from elmo.checkpoint.open import open_checkpoint

model, other, share, output = sys.argv[1:5]
first = open_checkpoint(model)
mean = average([first, open_checkpoint(other)], [float(share), 1 - float(share)])
write_folder(replace(mean, context=first.context, sentence=first.sentence), Path(output))
