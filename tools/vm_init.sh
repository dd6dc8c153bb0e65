#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Process 1 of a guest, twice: in the initramfs it loads modules and mounts the root, there it makes the host that the
# kernel command line asks for (agentsh.WORD), runs the script on /dev/vdc and sends back what it wrote.
set -u
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH

asked() { # whether a word is on the kernel command line
	case " $(cat /proc/cmdline) " in *" agentsh.$1 "*) return 0 ;; esac
	return 1
}

value() { # value KEY: of agentsh.KEY=VALUE
	tr ' ' '\n' </proc/cmdline | sed -n "s/^agentsh\.$1=//p"
}

port() { # the device of a virtio port by its name
	for p in /sys/class/virtio-ports/*; do
		[ "$(cat "$p/name")" != "$1" ] || echo "/dev/${p##*/}"
	done
}

end() {
	sync
	busybox reboot -f
	while :; do sleep 1; done
}

first_stage() {
	for a in cat insmod mount reboot sed sleep switch_root sync tr; do busybox ln -s busybox /bin/$a; done
	mount -t proc proc /proc
	mount -t sysfs sysfs /sys
	mount -t devtmpfs dev /dev
	for m in /modules/*.ko; do
		case $m in *-fuse.ko) ! asked nofuse || continue ;; esac
		insmod "$m" || echo "agentsh-vm: cannot load $m"
	done
	echo "agentsh-vm: started"
	! asked probe || end
	mount -t ext4 -o noatime /dev/vda /root || end
	mount -t ext4 -o ro /dev/vdb /root/agentsh || end
	for d in proc sys dev; do mount -o move /$d /root/$d; done
	exec switch_root /root /agentsh/tools/vm_init.sh
}

# The unified hierarchy as systemd leaves it: the tests run in a leaf, and its parent is given to whoever runs them.
cgroups() {
	mount -t cgroup2 -o nsdelegate cgroup2 /sys/fs/cgroup
	echo "+memory +pids +io +cpu" >/sys/fs/cgroup/cgroup.subtree_control
	mkdir -p /sys/fs/cgroup/agentsh.service/main
	if [ "$uid" != 0 ]; then
		chown "$uid" /sys/fs/cgroup/agentsh.service /sys/fs/cgroup/agentsh.service/* /sys/fs/cgroup/agentsh.service/main/cgroup.*
	fi
	echo 0 >/sys/fs/cgroup/agentsh.service/main/cgroup.procs
}

second_stage() {
	uid=$(value uid)
	mkdir -p /dev/pts /dev/shm
	mount -t devpts -o gid=5,mode=620,ptmxmode=666 devpts /dev/pts
	mount -t tmpfs -o mode=1777 shm /dev/shm
	mount -t tmpfs -o mode=755 run /run
	ln -s /proc/self/fd /dev/fd 2>/dev/null
	mount -t securityfs securityfs /sys/kernel/security
	busybox ip link set lo up
	hostname guest
	! asked nofuse || rm -f /dev/fuse
	[ ! -e /dev/fuse ] || chmod 666 /dev/fuse
	cgroups
	useradd -u 1000 -m agentsh-tester
	chown "$uid" /results
	! asked nouserns || echo 0 >/proc/sys/user/max_user_namespaces

	mkfifo /run/output
	cat /run/output >"$(port output)" &
	as="env"
	[ "$uid" = 0 ] || as="setpriv --reuid $uid --regid $uid --clear-groups env"
	# shellcheck disable=SC2086 # words
	(cd /agentsh && exec $as HOME=/tmp LANG=C.UTF-8 AGENTSH_BUILD_DIR=/agentsh/build AGENTSH_GUEST="$(value guest)" PYTHONPATH=/agentsh/site \
		PYTHONDONTWRITEBYTECODE=1 timeout -k 5 "$(value limit)" sh -c "$(tr -d '\0' </dev/vdc)") >/run/output 2>&1 </dev/null
	echo $? >/results/.status
	tar -C /results -cf - . >"$(port results)"
	end
}

if [ -d /modules ]; then first_stage; else second_stage; fi
