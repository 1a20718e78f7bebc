/** Returns milliseconds of the steady clock, which all threads of this process share. */
export function steady(): number {
    return Number(process.hrtime.bigint()) / 1e6;
}

/** Longest part of a lease that is left unused at its end: more than clocks and the scheduler are off by. */
const MARGIN = 1000;

/** Returns until when an attempt may run whose claim or heartbeat was sent at `sent`: less than the service grants. */
export function leaseEnd(sent: number, timeout: number): number {
    return sent + timeout - Math.min(MARGIN, timeout / 4);
}
