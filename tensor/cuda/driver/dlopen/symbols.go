package dlopen

// symbol is the index of a C function in a library.
type symbol int

const (
	initialize symbol = iota
	driverGetVersion
	deviceGetCount
	deviceGet
	deviceGetName
	deviceTotalMem
	deviceGetAttribute
	deviceGetUUID
	deviceGetPCIBusID
	deviceCanAccessPeer
	primaryRetain
	primaryRelease
	primaryGetState

	ctxSetCurrent
	ctxGetCurrent
	ctxGetDevice
	ctxSynchronize
	ctxGetStreamPriorityRange
	ctxEnablePeerAccess
	ctxDisablePeerAccess

	memGetInfo
	memAlloc
	memFree
	memGetAddressRange
	pointerGetAttribute
	memsetD8Async
	memsetD32Async

	memcpyHtoD
	memcpyDtoH
	memcpyDtoD
	memcpyHtoDAsync
	memcpyDtoHAsync
	memcpyDtoDAsync
	memcpyPeerAsync
	memcpy2D
	memcpy2DAsync

	memHostAlloc
	memFreeHost
	memHostRegister
	memHostUnregister
	memHostGetDevicePointer
	memHostGetFlags

	streamCreate
	streamDestroy
	streamSynchronize
	streamQuery
	streamWaitEvent
	streamWriteValue32
	streamWaitValue32

	eventCreate
	eventDestroy
	eventRecord
	eventQuery
	eventSynchronize
	eventElapsedTime

	ipcGetMemHandle
	ipcOpenMemHandle
	ipcCloseMemHandle
	ipcGetEventHandle
	ipcOpenEventHandle

	moduleLoadDataEx
	moduleUnload
	moduleGetFunction
	moduleGetGlobal
	funcGetAttribute
	funcSetAttribute
	occupancyMaxActiveBlocks
	launchKernel

	streamBeginCapture
	streamEndCapture
	streamIsCapturing
	graphGetNodes
	graphInstantiate
	graphExecUpdate
	graphUpload
	graphLaunch
	graphExecDestroy
	graphDestroy

	memGetAllocationGranularity
	memCreate
	memRelease
	memExportToShareableHandle
	memImportFromShareableHandle
	memAddressReserve
	memAddressFree
	memMap
	memUnmap
	memSetAccess

	symbolCount
)

// symbols are the functions that a library must export. A version in a name is part of
// the binary interface: cuda.h maps the plain name to it.
var symbols = [symbolCount]string{
	initialize:          "cuInit",
	driverGetVersion:    "cuDriverGetVersion",
	deviceGetCount:      "cuDeviceGetCount",
	deviceGet:           "cuDeviceGet",
	deviceGetName:       "cuDeviceGetName",
	deviceTotalMem:      "cuDeviceTotalMem_v2",
	deviceGetAttribute:  "cuDeviceGetAttribute",
	deviceGetUUID:       "cuDeviceGetUuid_v2",
	deviceGetPCIBusID:   "cuDeviceGetPCIBusId",
	deviceCanAccessPeer: "cuDeviceCanAccessPeer",
	primaryRetain:       "cuDevicePrimaryCtxRetain",
	primaryRelease:      "cuDevicePrimaryCtxRelease_v2",
	primaryGetState:     "cuDevicePrimaryCtxGetState",

	ctxSetCurrent:             "cuCtxSetCurrent",
	ctxGetCurrent:             "cuCtxGetCurrent",
	ctxGetDevice:              "cuCtxGetDevice",
	ctxSynchronize:            "cuCtxSynchronize",
	ctxGetStreamPriorityRange: "cuCtxGetStreamPriorityRange",
	ctxEnablePeerAccess:       "cuCtxEnablePeerAccess",
	ctxDisablePeerAccess:      "cuCtxDisablePeerAccess",

	memGetInfo:          "cuMemGetInfo_v2",
	memAlloc:            "cuMemAlloc_v2",
	memFree:             "cuMemFree_v2",
	memGetAddressRange:  "cuMemGetAddressRange_v2",
	pointerGetAttribute: "cuPointerGetAttribute",
	memsetD8Async:       "cuMemsetD8Async",
	memsetD32Async:      "cuMemsetD32Async",

	memcpyHtoD:      "cuMemcpyHtoD_v2",
	memcpyDtoH:      "cuMemcpyDtoH_v2",
	memcpyDtoD:      "cuMemcpyDtoD_v2",
	memcpyHtoDAsync: "cuMemcpyHtoDAsync_v2",
	memcpyDtoHAsync: "cuMemcpyDtoHAsync_v2",
	memcpyDtoDAsync: "cuMemcpyDtoDAsync_v2",
	memcpyPeerAsync: "cuMemcpyPeerAsync",
	memcpy2D:        "cuMemcpy2D_v2",
	memcpy2DAsync:   "cuMemcpy2DAsync_v2",

	memHostAlloc:            "cuMemHostAlloc",
	memFreeHost:             "cuMemFreeHost",
	memHostRegister:         "cuMemHostRegister_v2",
	memHostUnregister:       "cuMemHostUnregister",
	memHostGetDevicePointer: "cuMemHostGetDevicePointer_v2",
	memHostGetFlags:         "cuMemHostGetFlags",

	streamCreate:       "cuStreamCreateWithPriority",
	streamDestroy:      "cuStreamDestroy_v2",
	streamSynchronize:  "cuStreamSynchronize",
	streamQuery:        "cuStreamQuery",
	streamWaitEvent:    "cuStreamWaitEvent",
	streamWriteValue32: "cuStreamWriteValue32_v2",
	streamWaitValue32:  "cuStreamWaitValue32_v2",

	eventCreate:      "cuEventCreate",
	eventDestroy:     "cuEventDestroy_v2",
	eventRecord:      "cuEventRecord",
	eventQuery:       "cuEventQuery",
	eventSynchronize: "cuEventSynchronize",
	eventElapsedTime: "cuEventElapsedTime",

	ipcGetMemHandle:    "cuIpcGetMemHandle",
	ipcOpenMemHandle:   "cuIpcOpenMemHandle_v2",
	ipcCloseMemHandle:  "cuIpcCloseMemHandle",
	ipcGetEventHandle:  "cuIpcGetEventHandle",
	ipcOpenEventHandle: "cuIpcOpenEventHandle",

	moduleLoadDataEx:         "cuModuleLoadDataEx",
	moduleUnload:             "cuModuleUnload",
	moduleGetFunction:        "cuModuleGetFunction",
	moduleGetGlobal:          "cuModuleGetGlobal_v2",
	funcGetAttribute:         "cuFuncGetAttribute",
	funcSetAttribute:         "cuFuncSetAttribute",
	occupancyMaxActiveBlocks: "cuOccupancyMaxActiveBlocksPerMultiprocessor",
	launchKernel:             "cuLaunchKernel",

	streamBeginCapture: "cuStreamBeginCapture_v2",
	streamEndCapture:   "cuStreamEndCapture",
	streamIsCapturing:  "cuStreamIsCapturing",
	graphGetNodes:      "cuGraphGetNodes",
	graphInstantiate:   "cuGraphInstantiateWithFlags",
	graphExecUpdate:    "cuGraphExecUpdate_v2",
	graphUpload:        "cuGraphUpload",
	graphLaunch:        "cuGraphLaunch",
	graphExecDestroy:   "cuGraphExecDestroy",
	graphDestroy:       "cuGraphDestroy",

	memGetAllocationGranularity:  "cuMemGetAllocationGranularity",
	memCreate:                    "cuMemCreate",
	memRelease:                   "cuMemRelease",
	memExportToShareableHandle:   "cuMemExportToShareableHandle",
	memImportFromShareableHandle: "cuMemImportFromShareableHandle",
	memAddressReserve:            "cuMemAddressReserve",
	memAddressFree:               "cuMemAddressFree",
	memMap:                       "cuMemMap",
	memUnmap:                     "cuMemUnmap",
	memSetAccess:                 "cuMemSetAccess",
}
