/** What the error of a cancelled request says, where whoever cancelled it gave no reason. */
export const cancelReason = 'The request was cancelled'
