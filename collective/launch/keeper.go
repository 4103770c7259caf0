package launch

import (
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"syscall"

	"github.com/ringside-go/ringside/shm/limits"
)

// keepScript reads which process groups there are and, when the launcher's end of the
// pipe is closed, kills them.
const keepScript = `groups=" "
while read -r what group; do
	case $what in
	begin) groups="$groups-$group " ;;
	end) groups="${groups%%" -$group "*} ${groups#*" -$group "}" ;;
	esac
done
if [ "$groups" != " " ]; then kill -s KILL -- $groups; fi
`

// keeper is a shell that outlives a launcher which is killed, to end what local ranks
// have started: the kernel kills only the ranks themselves. It learns of the launcher's
// end by that of its standard input. Any goroutine may call begin and end: a line is one
// write.
type keeper struct {
	cmd   *exec.Cmd
	tells io.WriteCloser
}

// newKeeper starts one; where there is no shell it keeps nothing, and says so.
func newKeeper(log *slog.Logger) *keeper {
	k := &keeper{cmd: exec.Command("/bin/sh", "-c", keepScript)}
	// what ends the launcher's group is not to end it
	k.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var err error
	if k.tells, err = k.cmd.StdinPipe(); err == nil {
		err = k.cmd.Start()
	}
	if err != nil {
		log.Warn("what ranks start will outlive a launcher that is killed", "err", limits.Started(err))
		return nil
	}
	return k
}

func (k *keeper) begin(group int) { k.tell("begin", group) }

// end is called when nothing of a group is left: its number may then become another's.
func (k *keeper) end(group int) { k.tell("end", group) }

func (k *keeper) tell(what string, group int) {
	if k != nil {
		// if the keeper was killed, no process is left to tell
		fmt.Fprintln(k.tells, what, group)
	}
}

// close ends the keeper, which has nothing to do any more.
func (k *keeper) close() {
	if k != nil {
		k.tells.Close()
		_ = k.cmd.Wait()
	}
}
