package nccl

// symbol is the index of a C function in the library.
type symbol int

const (
	getVersion symbol = iota
	getUniqueID
	commInit
	commFinalize
	commDestroy
	commAbort
	commState
	lastError
	groupStart
	groupEnd
	allReduce
	allGather
	reduceScatter
	broadcast
	reduce
	send
	receive
	symbolCount
)

// symbols are the functions that a library must export.
var symbols = [symbolCount]string{
	getVersion:    "ncclGetVersion",
	getUniqueID:   "ncclGetUniqueId",
	commInit:      "ncclCommInitRankConfig",
	commFinalize:  "ncclCommFinalize",
	commDestroy:   "ncclCommDestroy",
	commAbort:     "ncclCommAbort",
	commState:     "ncclCommGetAsyncError",
	lastError:     "ncclGetLastError",
	groupStart:    "ncclGroupStart",
	groupEnd:      "ncclGroupEnd",
	allReduce:     "ncclAllReduce",
	allGather:     "ncclAllGather",
	reduceScatter: "ncclReduceScatter",
	broadcast:     "ncclBroadcast",
	reduce:        "ncclReduce",
	send:          "ncclSend",
	receive:       "ncclRecv",
}
