// Calls that the stand-in does not carry out: it runs no code of a device and records no
// graphs. Each is refused with CUDA_ERROR_NOT_SUPPORTED, after the checks of all calls.
#include "fake.h"

#define REFUSED(name)          \
	API Result name(void) {    \
		ENTER_CONTEXT;         \
		return NOT_SUPPORTED;  \
	}

REFUSED(cuModuleLoadDataEx)
REFUSED(cuModuleUnload)
REFUSED(cuModuleGetFunction)
REFUSED(cuModuleGetGlobal_v2)
REFUSED(cuFuncGetAttribute)
REFUSED(cuFuncSetAttribute)
REFUSED(cuOccupancyMaxActiveBlocksPerMultiprocessor)
REFUSED(cuLaunchKernel)

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
