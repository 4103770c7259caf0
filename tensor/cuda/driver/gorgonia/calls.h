// What call_unsafe.go calls, without cuda.h.
#include <stdint.h>

// The functions are declared for their addresses alone, without cuda.h.
#define DECLARE(f) extern void f(void);
DECLARE(cuDeviceGetUuid_v2) DECLARE(cuDeviceGetPCIBusId) DECLARE(cuDeviceCanAccessPeer)
DECLARE(cuCtxEnablePeerAccess) DECLARE(cuCtxDisablePeerAccess) DECLARE(cuPointerGetAttribute)
DECLARE(cuMemHostAlloc) DECLARE(cuMemFreeHost) DECLARE(cuMemHostRegister_v2) DECLARE(cuMemHostUnregister)
DECLARE(cuMemHostGetDevicePointer_v2) DECLARE(cuMemHostGetFlags)
DECLARE(cuStreamWriteValue32_v2) DECLARE(cuStreamWaitValue32_v2) DECLARE(cuEventElapsedTime)
DECLARE(cuIpcGetMemHandle) DECLARE(cuIpcCloseMemHandle) DECLARE(cuIpcGetEventHandle)
DECLARE(cuModuleLoadDataEx) DECLARE(cuModuleUnload) DECLARE(cuFuncSetAttribute)
DECLARE(cuStreamBeginCapture_v2) DECLARE(cuStreamEndCapture) DECLARE(cuStreamIsCapturing)
DECLARE(cuGraphGetNodes) DECLARE(cuGraphInstantiateWithFlags) DECLARE(cuGraphExecUpdate_v2)
DECLARE(cuGraphUpload) DECLARE(cuGraphLaunch) DECLARE(cuGraphExecDestroy) DECLARE(cuGraphDestroy)
DECLARE(cuMemcpy2D_v2) DECLARE(cuMemcpy2DAsync_v2) DECLARE(cuMemGetAllocationGranularity) DECLARE(cuMemCreate) DECLARE(cuMemRelease)
DECLARE(cuMemExportToShareableHandle) DECLARE(cuMemImportFromShareableHandle) DECLARE(cuMemAddressReserve)
DECLARE(cuMemAddressFree) DECLARE(cuMemMap) DECLARE(cuMemUnmap) DECLARE(cuMemSetAccess)

// call passes six integers or addresses, which both ABIs have registers for. A function
// of fewer parameters ignores the rest.
typedef int (*Six)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
static int call(void *f, const uint64_t *a) { return ((Six)f)(a[0], a[1], a[2], a[3], a[4], a[5]); }

// Handles are passed by value.
typedef struct { char bytes[64]; } Handle;
extern int cuIpcOpenMemHandle_v2(uint64_t *p, Handle h, unsigned flags);
extern int cuIpcOpenEventHandle(uint64_t *e, Handle h);
static int open_memory(uint64_t *p, const Handle *h) { return cuIpcOpenMemHandle_v2(p, *h, 1); }
static int open_event(uint64_t *e, const Handle *h) { return cuIpcOpenEventHandle(e, *h); }
