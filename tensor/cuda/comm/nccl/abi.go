package nccl

// Numbers of the binary interface, as in nccl.h of NCCL 2.14 to 2.31. TestABI compares
// them with the header where there is one.
const (
	// ncclDataType_t
	typeU8   = 1
	typeI32  = 2
	typeI64  = 4
	typeF16  = 6
	typeF32  = 7
	typeF64  = 8
	typeBF16 = 9

	// ncclRedOp_t
	opSum  = 0
	opProd = 1
	opMax  = 2
	opMin  = 3

	// ncclConfig_t
	configMagic   = 0xcafebeef // NCCL_API_MAGIC
	configVersion = 21400      // NCCL_VERSION(2, 14, 0), of the fields below
	undefined     = -1 << 31   // NCCL_CONFIG_UNDEF_INT
)

// config is the ncclConfig_t of 2.14, which later libraries take by its size.
type config struct {
	size     uint64
	magic    uint32
	version  uint32
	blocking int32
	_        int32 // to a multiple of 8; cgaClusterSize from 2.17 on, which 2.14 has not
}
