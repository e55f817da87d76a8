const words = `the of and to a in is that it was for on are as with his they at be this from have or
by one had not but what all were when we there can an your which their said if do will each about
how up out them then she many some so these would other into has more her two like him see time
could no make than first been its who now people my made over did down only way find use may water
long little very after words called just where most know get through back much go good new write our
used me man too any day same right look think also around another came come work three must because
does part even place well such here take why help put different away again off went old number great
tell men say small every found still between name should home big give air line set own under read
last never us left end along while might next sound below saw something thought both few those
always show large often together asked house world going want school important until form food keep
children feet land side without boy once animal life enough took four head above kind began almost
live page got earth need far hand high year mother light country father let night picture being
study second soon story since white ever paper hard near sentence better best across during today
however sure knew try told young sun thing whole hear example heard several change answer room sea
against top turned learn point city play toward five himself usually money seen car morning`

/**
 * Frequent English words as byte-level BPE sees them (a leading space is `Ġ`), the frequent ones
 * first and weighted by rank (Zipf's law): enough to learn a small vocabulary from.
 */
export const commonWords: ReadonlyMap<string, number> = new Map(
  words.split(/\s+/).map((word, rank) => [`Ġ${word}`, Math.ceil(1000 / (rank + 1))]),
)
