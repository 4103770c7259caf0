// Calls that the stand-in does not carry out: it records no graphs. Each is refused with
// CUDA_ERROR_NOT_SUPPORTED, after the checks of all calls.
#include "fake.h"

#define REFUSED(name)          \
	API Result name(void) {    \
		ENTER_CONTEXT;         \
		return NOT_SUPPORTED;  \
	}

REFUSED(cuStreamBeginCapture_v2)
REFUSED(cuStreamEndCapture)
REFUSED(cuStreamIsCapturing)
REFUSED(cuGraphGetNodes)
REFUSED(cuGraphInstantiateWithFlags)
REFUSED(cuGraphExecUpdate_v2)
REFUSED(cuGraphUpload)
REFUSED(cuGraphLaunch)
REFUSED(cuGraphExecDestroy)
REFUSED(cuGraphDestroy)
