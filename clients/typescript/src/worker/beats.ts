import { UnavailableError } from "../errors.js";
import type { Schemas } from "../types.js";
import { leaseEnd, steady } from "./clock.js";

/** Cycles of a heartbeat timeout: one heartbeat may be lost and one late before the lease is in danger. */
const CYCLES = 4;
/** Steps of a cycle, each of which sends an equal share of its heartbeats. */
const STEPS = 8;
/** Calls of one cycle length that are under way at once: one that hangs must not hold up the next. */
const CALLS = 4;
/** Heartbeats of one call. */
const ITEMS = 1000;
/** Longest time of a call. */
const CALL_LIMIT = 5_000;

/** An attempt that is to be kept alive. */
export interface Kept {
    id: string;
    attempt: number;
    /** Its heartbeat timeout in milliseconds. */
    timeout: number;
    /** When its claim was sent, by the steady clock. */
    sent: number;
}

/** What becomes of attempts: some begin, some have ended, one has a note. */
export interface ToHeart {
    added?: Kept[];
    removed?: string[];
    progress?: { key: string; json: string };
}

/** The reasons for which a handler is told to stop. */
export type Told = "lost" | "expired" | "cancelled";

export type SendBeats = (tasks: Schemas["HeartbeatItem"][], timeout: number) => Promise<Schemas["HeartbeatAnswer"]>;

interface Beating extends Kept {
    key: string;
    end: number;
    beaten: number;
    underWay: boolean;
    /** Its last heartbeat failed: it goes with the next step. */
    failed: boolean;
    progress: string | undefined;
}

interface Lane {
    cycle: number;
    /** Those whose turn is next come first. */
    line: Beating[];
    owed: number;
    calls: number;
    pausedUntil: number;
    timer: NodeJS.Timeout;
}

/** The name of an attempt. */
export function keyOf({ id, attempt }: { id: string; attempt: number }): string {
    return `${id}/${attempt}`;
}

/**
 * Sends the heartbeats of running attempts, evenly: each step of a cycle sends an equal share of those whose turn it is, so
 * attempts that were claimed together do not stay together. One that was missed goes with the next step.
 *
 * A lease is counted from before its claim or heartbeat was sent. An answer that comes behind its end extends nothing.
 */
export class Beats {
    readonly #send: SendBeats;
    readonly #tell: (key: string, told: Told) => void;
    readonly #lanes = new Map<number, Lane>();
    readonly #attempts = new Map<string, Beating>();

    constructor(send: SendBeats, tell: (key: string, told: Told) => void) {
        this.#send = send;
        this.#tell = tell;
    }

    take({ added = [], removed = [], progress }: ToHeart): void {
        for (const kept of added) this.#add(kept);
        for (const key of removed) this.#attempts.delete(key);
        const beating = progress && this.#attempts.get(progress.key);
        if (beating) beating.progress = progress.json;
    }

    #add(kept: Kept): void {
        const key = keyOf(kept);
        const end = leaseEnd(kept.sent, kept.timeout);
        const beating = { ...kept, key, end, beaten: kept.sent, underWay: false, failed: false, progress: undefined };
        this.#attempts.set(key, beating);
        this.#lane(kept.timeout / CYCLES).line.push(beating);
    }

    stop(): void {
        for (const { timer } of this.#lanes.values()) clearInterval(timer);
        this.#lanes.clear();
        this.#attempts.clear();
    }

    #lane(cycle: number): Lane {
        let lane = this.#lanes.get(cycle);
        if (!lane) {
            const timer = setInterval(() => this.#step(cycle), cycle / STEPS);
            lane = { cycle, line: [], owed: 0, calls: 0, pausedUntil: 0, timer };
            this.#lanes.set(cycle, lane);
        }
        return lane;
    }

    #step(cycle: number): void {
        const lane = this.#lanes.get(cycle);
        if (!lane) return;
        const now = steady();
        lane.line = lane.line.filter((beating) => this.#lives(beating, now));
        if (lane.line.length === 0) {
            clearInterval(lane.timer);
            this.#lanes.delete(cycle);
            return;
        }
        lane.owed = Math.min(lane.owed + lane.line.length / STEPS, lane.line.length);
        if (now < lane.pausedUntil) return;
        const share = Math.floor(lane.owed);
        lane.owed -= share;
        const late = (beating: Beating) => beating.failed || now - beating.beaten > 1.5 * cycle;
        const due = lane.line.filter((beating, place) => !beating.underWay && (place < share || late(beating)));
        // Their next turn is behind all others.
        const gone = new Set(due);
        lane.line = lane.line.filter((beating) => !gone.has(beating)).concat(due);
        for (let from = 0; from < due.length; from += ITEMS) {
            const batch = due.slice(from, from + ITEMS);
            if (lane.calls < CALLS) void this.#beat(lane, batch);
            else for (const beating of batch) beating.failed = true;
        }
    }

    /** Tells whether an attempt still runs within its lease. */
    #lives(beating: Beating, now: number): boolean {
        if (this.#attempts.get(beating.key) !== beating) return false;
        if (now < beating.end) return true;
        this.#end(beating, "expired");
        return false;
    }

    #end(beating: Beating, told: Told): void {
        this.#attempts.delete(beating.key);
        this.#tell(beating.key, told);
    }

    async #beat(lane: Lane, beatings: Beating[]): Promise<void> {
        lane.calls += 1;
        const sent = steady();
        for (const beating of beatings) beating.underWay = true;
        try {
            const items = beatings.map(({ id, attempt, progress }) => ({
                id,
                attempt,
                ...(progress !== undefined && { progress: JSON.parse(progress) as never }),
            }));
            const { results } = await this.#send(items, Math.min(lane.cycle, CALL_LIMIT));
            beatings.forEach((beating, place) => this.#answered(lane, beating, results[place], sent));
        } catch (error) {
            if (error instanceof UnavailableError) this.#pause(lane, error.retryAfter);
            for (const beating of beatings) beating.failed = true;
        } finally {
            lane.calls -= 1;
            for (const beating of beatings) beating.underWay = false;
        }
    }

    #answered(lane: Lane, beating: Beating, result: Schemas["HeartbeatResult"] | undefined, sent: number): void {
        if (this.#attempts.get(beating.key) !== beating) return;
        const status = result?.status;
        if (status === "lost") return this.#end(beating, "lost");
        beating.failed = status !== "ok" && status !== "cancel_requested";
        if (beating.failed) {
            if (result?.error?.retryable) this.#pause(lane, undefined);
            return;
        }
        beating.beaten = sent;
        if (steady() < beating.end) beating.end = Math.max(beating.end, leaseEnd(sent, beating.timeout));
        if (status === "cancel_requested") this.#tell(beating.key, "cancelled");
    }

    /** Waits as long as the service asks for, but never so long that leases are in danger. */
    #pause(lane: Lane, asked = 500): void {
        lane.pausedUntil = steady() + Math.min(asked, (lane.cycle * CYCLES) / 10);
    }
}
