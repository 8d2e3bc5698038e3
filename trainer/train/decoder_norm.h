// Rows of W_O held at one norm (TrainConfig.decoder_norm), so that the size of what a head writes
// is that of its activation alone.
#ifndef LORSA_TRAINER_TRAIN_DECODER_NORM_H_
#define LORSA_TRAINER_TRAIN_DECODER_NORM_H_

#include "trainer/lorsa/lorsa_parameters.h"

namespace lorsa::trainer {

// Moves the norm of each row of W_O over to W_V and b_V, which changes neither what the heads write
// nor, by scores with the decoder's norm, which are kept. Rows of zeros stay.
void MoveDecoderNorm(double norm, LorsaParameters& parameters);

// After a step: each row of W_O back to its norm; rows of zeros stay.
void ProjectDecoder(double norm, LorsaParameters& parameters);

// Before a step: takes from each row of W_O's gradient its part along the row, which would only
// change the norm.
void RemoveParallelPart(const LorsaParameters& parameters, LorsaParameters& gradients);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_TRAIN_DECODER_NORM_H_
