#!/bin/bash
# What runs inside the machine: it does what the host asks, one file of commands after the other.
# The host writes `ask.N` and reads `answer.N`, whose last line is the exit status.
cd "$(dirname "$0")" || exit 1
export PATH=$PATH:/usr/sbin:/sbin HOME=/root
number=0
touch up
while [ ! -e end ]; do
    if [ -e "ask.$number" ]; then
        bash "./ask.$number" > answering 2>&1 < /dev/null
        echo "$?" >> answering
        mv answering "answer.$number"
        number=$((number + 1))
    else
        sleep 0.1
    fi
done
