/** The slot that llama-server's `id_slot` names; −1 and none leave it to the engine. */
export const slotOf = (id: number | undefined): number | undefined =>
  id === undefined || id < 0 ? undefined : id
