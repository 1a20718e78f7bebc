/** A page of a list, and where the next one begins. */
export interface Page<T> {
    items: T[];
    next: string | null | undefined;
}

/**
 * A list of the service: `for await` goes over its items, `pages()` over its pages, and both read as they go.
 *
 * A page may be empty and not be the last, since each reads a bounded part of the list.
 */
export class List<T> implements AsyncIterable<T> {
    readonly #read: (token: string | undefined) => Promise<Page<T>>;

    constructor(read: (token: string | undefined) => Promise<Page<T>>) {
        this.#read = read;
    }

    async *pages(): AsyncGenerator<T[], void, undefined> {
        let token: string | undefined;
        do {
            const page = await this.#read(token);
            yield page.items;
            token = page.next ?? undefined;
        } while (token !== undefined && token !== "");
    }

    async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
        for await (const page of this.pages()) yield* page;
    }

    /** Reads the whole list, or its first items. */
    async toArray(most = Number.POSITIVE_INFINITY): Promise<T[]> {
        const items: T[] = [];
        for await (const item of this) {
            if (items.length >= most) break;
            items.push(item);
        }
        return items;
    }
}
