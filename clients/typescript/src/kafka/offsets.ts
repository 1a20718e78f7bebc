/** A partition of a topic. */
export interface Place {
    topic: string;
    partition: number;
}

interface Partition extends Place {
    open: Set<bigint>;
    next: bigint;
    committed: bigint;
}

/** What may be committed: messages are done in any order, and a mark passes none that is not done. */
export class Offsets {
    readonly #partitions = new Map<string, Partition>();

    /** Notes a message. Returns false for one that was received before. */
    received(place: Place, offset: bigint): boolean {
        const known = this.#partitions.get(keyOf(place));
        if (!known) {
            const open = new Set([offset]);
            this.#partitions.set(keyOf(place), { ...place, open, next: offset + 1n, committed: offset });
            return true;
        }
        if (offset < known.next) return false;
        known.open.add(offset);
        known.next = offset + 1n;
        return true;
    }

    /** Notes that nothing is to be done for a message any more. */
    done(place: Place, offset: bigint): void {
        this.#partitions.get(keyOf(place))?.open.delete(offset);
    }

    /** Keeps these partitions; another worker has the others now. */
    keep(owned: (place: Place) => boolean): void {
        for (const [key, place] of this.#partitions) if (!owned(place)) this.#partitions.delete(key);
    }

    /** Returns the marks that have moved since they were committed. */
    toCommit(): (Place & { offset: bigint })[] {
        const marks = [];
        for (const { topic, partition, open, next, committed } of this.#partitions.values()) {
            let offset = next;
            for (const waits of open) if (waits < offset) offset = waits;
            if (offset > committed) marks.push({ topic, partition, offset });
        }
        return marks;
    }

    /** Notes marks that the broker has taken. */
    committed(marks: readonly (Place & { offset: bigint })[]): void {
        for (const { offset, ...place } of marks) {
            const known = this.#partitions.get(keyOf(place));
            if (known) known.committed = offset;
        }
    }
}

export function keyOf({ topic, partition }: Place): string {
    return `${topic}/${partition}`;
}
